"""What is said of whom: an Event for each object and reason, written again when what it says changes.

Said again after half an hour also where nothing has changed, since the API server drops Events after an hour. What was
said is not taken back: an Event is history, and those who are satisfied are simply not spoken of any more. Where there is
more to say than may be said, those come first of whom nothing was said yet, and then those who wait the longest.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dra_driver.kube.events import Recorder, Reference
from dra_driver.kube.reasons import Reason

REMIND_SECONDS = 1800.0
_MAX_BACKLOG = 100  # beyond it, what would be said is said a little later, and is then newer


@dataclass(frozen=True, slots=True)
class _Said:
    text: str
    at: float


class Speaker:
    """Says what is to be said through a recorder, once; for one thread."""

    def __init__(
        self, recorder: Recorder, reason: Reason, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._recorder = recorder
        self._reason = reason
        self._clock = clock
        self._said: dict[Reference, _Said] = {}

    def say(self, texts: Mapping[Reference, str]) -> bool:
        """Say what is new of `texts`, which is all there is to say; whether something is left for later."""
        for about in [about for about in self._said if about not in texts]:
            del self._said[about]
            self._recorder.withdraw(about, self._reason)
        now = self._clock()
        unsaid = _Said("", -math.inf)
        said = {about: self._said.get(about, unsaid) for about in texts}
        due = [
            about
            for about, last in said.items()
            if last.text != texts[about] or now - last.at >= REMIND_SECONDS
        ]
        for about in sorted(due, key=lambda about: said[about].at):
            if self._recorder.backlog >= _MAX_BACKLOG:
                return True
            self._recorder.record(about, self._reason, texts[about], replaces=True)
            self._said[about] = _Said(texts[about], now)
        return False

    def forget(self) -> None:
        """Start anew: somebody else speaks meanwhile."""
        for about in self._said:
            self._recorder.withdraw(about, self._reason)
        self._said.clear()
