"""Who waits for us, which of them ask the same, and what is said of them when."""

from collections.abc import Callable
from typing import Any

import pytest

from dra_driver.allocation.diagnosis import Diagnosis, World
from dra_driver.controller.explainer.answers import Answers
from dra_driver.controller.explainer.ours import Ours
from dra_driver.controller.explainer.pending import Subject, subjects
from dra_driver.controller.explainer.speaker import REMIND_SECONDS, Speaker
from dra_driver.kube.client import Client
from dra_driver.kube.endpoint import Endpoint, StaticToken
from dra_driver.kube.events import Recorder, Reference
from dra_driver.kube.reasons import Reason

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"
REFUSED = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}


def device_class(name: str = DRIVER, expression: str = f"device.driver == '{DRIVER}'", **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"selectors": [{"cel": {"expression": expression}}], **spec}}


def spec(device_class: str = DRIVER, **exactly: Any) -> Object:
    return {
        "devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": device_class, **exactly}}]}
    }


def claim(name: str, owner: str = "", **parts: Any) -> Object:
    metadata: Object = {"name": name, "namespace": "team", "uid": f"uid-{name}"}
    if owner:
        metadata["ownerReferences"] = [{"kind": "Pod", "name": owner, "uid": f"uid-{owner}"}]
    body = {"metadata": metadata, "spec": spec(), **parts}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", **body}


def pod(name: str, claim: str = "", status: Object = REFUSED, **parts: Any) -> Object:
    entry = {"name": "gpu", "resourceClaimName": claim or name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": {"containers": [{"name": "c"}], "resourceClaims": [entry], **parts},
        "status": status,
    }


def waiting(
    *, pods: list[Object], claims: list[Object], classes: list[Object] | None = None
) -> list[Subject]:
    world = World(classes=classes or [device_class()], claims=claims, pods=pods)
    return list(subjects(world, Ours(DRIVER, world.classes)))


def names(found: list[Subject]) -> list[tuple[str, str]]:
    return [(one.about.kind, one.about.name) for one in found]


class TestWhoWaits:
    def test_a_pod_that_was_refused_and_its_claim(self) -> None:
        found = waiting(pods=[pod("p")], claims=[claim("p")])
        assert names(found) == [("Pod", "p"), ("ResourceClaim", "p")]

    def test_a_pod_that_the_scheduler_has_not_looked_at_does_not_yet(self) -> None:
        found = waiting(pods=[pod("p", status={"phase": "Pending"})], claims=[claim("p", owner="p")])
        assert found == []

    def test_one_that_names_what_is_not_there_does_at_once(self) -> None:
        found = waiting(pods=[pod("p", status={"phase": "Pending"})], claims=[])
        assert names(found) == [("Pod", "p")]

    @pytest.mark.parametrize(
        "parts",
        [{"spec": {"schedulingGates": [{"name": "g"}]}}, {"metadata": {"deletionTimestamp": "t"}}],
        ids=["gated", "going"],
    )
    def test_one_that_is_held_back_or_going_does_not(self, parts: dict[str, Object]) -> None:
        one = pod("p")
        for key, more in parts.items():
            one[key] = {**one[key], **more}
        assert names(waiting(pods=[one], claims=[claim("p", owner="p")])) == []

    def test_one_that_nobody_thought_of_does_not_keep_the_others_from_it(self) -> None:
        odd = pod("odd", containers=[{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "many"}}}])
        found = waiting(pods=[odd, pod("p")], claims=[claim("p")])
        assert names(found) == [("Pod", "p"), ("ResourceClaim", "p")]

    def test_a_claim_that_has_its_devices_does_not(self) -> None:
        allocation = {"devices": {"results": [{"driver": DRIVER, "pool": "p", "device": "d"}]}}
        found = waiting(pods=[], claims=[claim("c", status={"allocation": allocation})])
        assert found == []


class TestWhoIsOurs:
    @pytest.mark.parametrize(
        ("wanted", "ours"),
        [
            (spec(DRIVER), True),
            (spec("nic"), False),
            (spec("mig.nvidia.com"), True),  # not installed, and by its name one of ours
            (spec("gpu.nvidia.con"), True),
            (spec("something"), False),
            (spec("nic", selectors=[{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]), True),
            (
                {
                    "devices": {
                        "requests": [
                            {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": DRIVER}]}
                        ]
                    }
                },
                True,
            ),
            ({}, False),
        ],
    )
    def test_classes_and_selectors_that_name_the_driver(self, wanted: Object, ours: bool) -> None:
        classes = [device_class(), device_class("nic", "device.driver == 'nic.example.com'")]
        assert Ours(DRIVER, classes).wanted_by({"spec": wanted}) is ours

    def test_old_resource_names_of_the_vendor(self) -> None:
        ours = Ours(DRIVER, [])
        assert ours.is_resource("nvidia.com/gpu")
        assert not ours.is_resource("amd.com/gpu")


class TestQuestions:
    def test_pods_that_differ_in_name_only_share_one(self) -> None:
        found = waiting(pods=[pod("a"), pod("b")], claims=[claim("a", owner="a"), claim("b", owner="b")])
        assert len(found) == 4
        assert len({one.question for one in found}) == 1

    def test_where_a_pod_may_run_makes_another(self) -> None:
        pods = [pod("a"), pod("b", nodeSelector={"zone": "a"})]
        found = waiting(pods=pods, claims=[claim("a", owner="a"), claim("b", owner="b")])
        assert len({one.question for one in found}) == 2

    def test_a_name_that_is_part_of_the_answer_makes_another(self) -> None:
        missing = [claim(name, spec=spec("mig.nvidia.com")) for name in ("a", "b")]
        assert len({one.question for one in waiting(pods=[], claims=missing)}) == 2


def subject(name: str, question: str, ask: Callable[[World], Diagnosis]) -> Subject:
    return Subject(Reference("v1", "Pod", name), question, ask)


class TestAnswers:
    def test_a_question_is_worked_out_once_until_the_cluster_changes(self) -> None:
        asked: list[str] = []

        def ask(_: World) -> Diagnosis:
            asked.append("x")
            return Diagnosis("pod", "n/p", "")

        answers, both = Answers(), [subject("a", "q", ask), subject("b", "q", ask)]
        for version in (1, 1, 2):
            answers.update(World(), version, both, 10.0)
        assert len(asked) == 2
        found = answers.of(both[1])
        assert found is not None
        assert found.reason == "satisfiable"

    def test_what_has_no_answer_yet_comes_before_what_is_old(self) -> None:
        asked: list[str] = []

        def asker(name: str) -> Callable[[World], Diagnosis]:
            def ask(_: World) -> Diagnosis:
                asked.append(name)
                return Diagnosis("pod", "n/p", "")

            return ask

        answers = Answers()
        old, new = subject("old", "old", asker("old")), subject("new", "new", asker("new"))
        answers.update(World(), 1, [old], 10.0)
        assert answers.update(World(), 2, [old, new], -1.0)  # no time: one answer, and more to do
        assert answers.of(new) is not None
        assert not answers.update(World(), 2, [old, new], -1.0)
        assert asked == ["old", "new", "old"]

    def test_an_object_that_nobody_thought_of_costs_only_its_own_answer(self) -> None:
        def fail(_: World) -> Diagnosis:
            raise KeyError("x")

        answers, broken = Answers(), subject("a", "q", fail)
        assert not answers.update(World(), 1, [broken], 10.0)
        found = answers.of(broken)
        assert found is not None
        assert found.reason == "other"

    def test_answers_of_those_who_wait_no_longer_are_let_go(self) -> None:
        answers, one = Answers(), subject("a", "q", lambda _: Diagnosis("pod", "n/p", ""))
        answers.update(World(), 1, [one], 10.0)
        answers.update(World(), 1, [], 10.0)
        assert answers.of(one) is None


class TestSpeaker:
    ABOUT = Reference("v1", "Pod", "p", "team", "u")

    @pytest.fixture
    def recorder(self) -> Recorder:
        """Not started: what it is told stays in it."""
        return Recorder(Client(Endpoint("http://127.0.0.1:1", StaticToken())), component="c")

    def test_it_says_what_is_new_and_reminds_now_and_then(self, recorder: Recorder) -> None:
        now = [0.0]
        speaker = Speaker(recorder, Reason.CLAIM_NOT_SATISFIABLE, clock=lambda: now[0])
        said = []
        for at, text in ((0.0, "a"), (1.0, "a"), (2.0, "b"), (3.0, "b"), (3.0 + REMIND_SECONDS, "b")):
            now[0] = at
            speaker.say({self.ABOUT: text})
            said.append(recorder.backlog)
            recorder.withdraw(self.ABOUT, Reason.CLAIM_NOT_SATISFIABLE)
        assert said == [1, 0, 1, 0, 1]

    def test_what_is_no_longer_so_is_withdrawn_and_said_again_when_it_returns(
        self, recorder: Recorder
    ) -> None:
        speaker = Speaker(recorder, Reason.CLAIM_NOT_SATISFIABLE)
        said = []
        for texts in ({self.ABOUT: "a"}, {}, {self.ABOUT: "a"}):
            speaker.say(texts)
            said.append(recorder.backlog)
        assert said == [1, 0, 1]

    def test_of_very_many_some_are_left_for_later(self, recorder: Recorder) -> None:
        speaker = Speaker(recorder, Reason.CLAIM_NOT_SATISFIABLE)
        texts = {Reference("v1", "Pod", f"p{number}"): "a" for number in range(1000)}
        assert speaker.say(texts)
        assert recorder.backlog == 100

    def test_who_forgets_leaves_nothing_to_be_sent(self, recorder: Recorder) -> None:
        speaker = Speaker(recorder, Reason.CLAIM_NOT_SATISFIABLE)
        speaker.say({self.ABOUT: "a"})
        speaker.forget()
        assert recorder.backlog == 0

    def test_whom_nothing_was_said_of_comes_before_reminders_and_those_before_by_age(
        self, recorder: Recorder
    ) -> None:
        now = [0.0]
        speaker = Speaker(recorder, Reason.CLAIM_NOT_SATISFIABLE, clock=lambda: now[0])
        everybody = [Reference("v1", "Pod", f"p{number:03}") for number in range(250)]
        said = []
        for _ in range(4):
            speaker.say(dict.fromkeys(everybody, "a"))
            said.append({about for about in everybody if pending(recorder, about)})
            for about in everybody:
                recorder.withdraw(about, Reason.CLAIM_NOT_SATISFIABLE)
            now[0] += REMIND_SECONDS
        assert [
            everybody[:100],
            everybody[100:200],
            [*everybody[:50], *everybody[200:]],
            everybody[50:150],
        ] == [sorted(one, key=everybody.index) for one in said]


def pending(recorder: Recorder, about: Reference) -> bool:
    """Whether something about it waits to be sent; it is withdrawn thereby."""
    before = recorder.backlog
    recorder.withdraw(about, Reason.CLAIM_NOT_SATISFIABLE)
    return recorder.backlog < before
