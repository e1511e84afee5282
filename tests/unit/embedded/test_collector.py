"""What the collector makes up for, that no request can."""

from dra_driver.embedded.apiserver.admission import Admission
from dra_driver.embedded.apiserver.calling import Caller
from dra_driver.embedded.apiserver.collector import Collector
from dra_driver.embedded.apiserver.deletion import Deletion
from dra_driver.embedded.apiserver.kinds import POD
from dra_driver.embedded.apiserver.storage import Change, Storage


def test_an_object_that_was_made_while_its_namespace_went_goes_too() -> None:
    storage = Storage(10)
    collector = Collector(storage, Deletion(storage, Admission(storage, Caller({}))))
    watch, _, _ = storage.watch(POD)
    collector.start()
    try:
        storage.put(POD, {"metadata": {"name": "p", "namespace": "gone", "uid": "u"}, "spec": {}}, None)
        added, deleted = (watch.changes.get(timeout=90) for _ in range(2))
    finally:
        collector.stop()

    assert isinstance(added, Change)
    assert isinstance(deleted, Change)
    assert (added.type, deleted.type) == ("ADDED", "DELETED")
