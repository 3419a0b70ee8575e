"""Example of an admission order: shortest prompt first, tempered by the time of arrival."""

from __future__ import annotations

from scheduler import AdmissionOrder, SequenceView


class FairWait(AdmissionOrder):
    """Short prompts first, but one second of waiting counts as much as ten prompt tokens: nobody starves."""

    name = "fair_wait"

    def key(self, seq: SequenceView) -> float:
        """Lowest first. Arrival time minus what a short prompt is worth does not change while a request waits."""
        return seq.arrival_time + seq.num_prompt_tokens / 10
