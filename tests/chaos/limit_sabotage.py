"""Ways to break what limits promise, to prove that the checker notices: they stand between library and store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock.ports.limits import Finished, Turn

if TYPE_CHECKING:
    from interlock.ports.limits import LimitAnswer, Plan

__all__ = ["sabotage"]


def sabotage(store: Any, how: str) -> None:
    """Break a store's limits as named; "" breaks nothing. A store that several share is broken once."""
    limits = store.limits if how else None
    if limits is None or hasattr(limits, "sabotaged"):
        return
    limits.sabotaged = how
    ask, finish = limits.ask, limits.finish

    async def one_too_many(plan: Plan) -> LimitAnswer:
        uses = tuple(use if use.per else use._replace(max_count=use.max_count + 1) for use in plan.uses)
        return await ask(plan._replace(uses=uses))

    async def forgets_starts_of_others(plan: Plan) -> LimitAnswer:
        """As if each process's starts were gone with it."""
        uses = tuple(use._replace(key=f"{use.key}/{plan.session}") if use.per else use for use in plan.uses)
        return await ask(plan._replace(uses=uses))

    async def shorter_spans(plan: Plan) -> LimitAnswer:
        return await ask(plan._replace(uses=tuple(use._replace(per=use.per / 2) for use in plan.uses)))

    async def invented_times(plan: Plan) -> LimitAnswer:
        answer = await ask(plan)
        if isinstance(answer, Turn) and answer.started and answer.at is not None:
            return answer._replace(at=answer.at + 1000 * (answer.at % 100))
        return answer

    async def never_free(session: str, owner: str) -> Finished:
        return Finished(True, True, ())

    broken_ask = {
        "one too many": one_too_many,
        "forgets starts of others": forgets_starts_of_others,
        "shorter spans": shorter_spans,
        "invented times": invented_times,
    }
    limits.ask = broken_ask.get(how, ask)
    limits.finish = never_free if how == "never free" else finish
