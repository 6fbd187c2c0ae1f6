"""The bridges: the stages that an intent passes through."""

from bridge.core.bridges.base_bridge import BaseBridge
from bridge.core.bridges.feedback_bridge import FeedbackBridge
from bridge.core.bridges.input_bridge import InputBridge
from bridge.core.bridges.normalize_bridge import NormalizeBridge
from bridge.core.bridges.output_bridge import OutputBridge

__all__ = ["BaseBridge", "FeedbackBridge", "InputBridge", "NormalizeBridge", "OutputBridge"]
