import pytest

from dra_driver.versions import cuda_semver, driver_semver, is_semver


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("580.159.04", "580.159.4"),
        ("550.127.08", "550.127.8"),
        ("535.183.06", "535.183.6"),
        ("470.00", "470.0.0"),
        ("615", "615.0.0"),
        (" v1.2.3-open", "1.2.3"),
        ("580.65.06.01", None),
        ("unknown", None),
        ("", None),
    ],
)
def test_driver_versions_become_semantic_versions(raw: str, expected: str | None) -> None:
    assert expected == driver_semver(raw)


@pytest.mark.parametrize("raw", ["580.159.04", "470.00", "615"])
def test_a_published_driver_version_is_accepted_by_the_api_server(raw: str) -> None:
    assert is_semver(driver_semver(raw) or "")


def test_cuda_versions_are_split_as_nvml_encodes_them() -> None:
    assert ["12.4.0", "13.0.0", "11.8.0"] == [cuda_semver(n) for n in (12040, 13000, 11080)]


@pytest.mark.parametrize("text", ["1.2", "01.2.3", "v1.2.3", "1.2.3-", "1.2.3\n", ""])
def test_what_is_no_semantic_version_is_told(text: str) -> None:
    assert not is_semver(text)
