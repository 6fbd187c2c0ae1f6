"""The models."""

from bridge.core.models.intent_model import CorrectionEntry, IntentModel
from bridge.core.models.reeval_model import ReEvaluationRequest, ReEvaluationResponse

__all__ = ["CorrectionEntry", "IntentModel", "ReEvaluationRequest", "ReEvaluationResponse"]
