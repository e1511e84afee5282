"""NVML's numbers in words, as the official driver publishes them.

Selectors compare these strings, so they are the official ones to the letter ("Ada Lovelace", with its
space). A number that is not known here is newer than this file, and a new GPU must not be an error: its
architecture is told by the compute capability family, else "Unknown", which is also NVML's own word.
"""

UNKNOWN = "Unknown"

BRANDS = {
    1: "Quadro",
    2: "Tesla",
    3: "NVS",
    4: "Grid",
    5: "GeForce",
    6: "Titan",
    7: "NvidiaVApps",
    8: "NvidiaVPC",
    9: "NvidiaVCS",
    10: "NvidiaVWS",
    11: "NvidiaCloudGaming",
    12: "QuadroRTX",
    13: "NvidiaRTX",
    14: "Nvidia",
    15: "GeForceRTX",
    16: "TitanRTX",
}
ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
_FAMILIES = {
    3: "Kepler",
    5: "Maxwell",
    6: "Pascal",
    9: "Hopper",
    10: "Blackwell",
    12: "Blackwell",
    13: "Rubin",
}
ADDRESSING_MODES = {0: "None", 1: "HMM", 2: "ATS"}

# CUDA cores per multiprocessor, from the CUDA programming guide. NVML counts cores only.
_CORES = {
    (5, 0): 128,
    (5, 2): 128,
    (6, 0): 64,
    (6, 1): 128,
    (7, 0): 64,
    (7, 5): 64,
    (8, 0): 64,
    (8, 6): 128,
    (8, 9): 128,
    (9, 0): 128,
    (10, 0): 128,
    (10, 3): 128,
    (12, 0): 128,
    (12, 1): 128,
}


def brand(number: int) -> str:
    """The brand of `nvmlBrandType_t`."""
    return BRANDS.get(number, UNKNOWN)


def architecture(number: int | None, capability: tuple[int, int] | None) -> str | None:
    """The architecture of `nvmlDeviceArchitecture_t`, or of the compute capability; None if neither is told."""
    named = ARCHITECTURES.get(number) if number is not None else None
    if named is None and capability is not None:
        named = _family(*capability)
    return named or (UNKNOWN if number is not None else None)


def _family(major: int, minor: int) -> str | None:
    match major, minor:
        case 7, _:
            return "Turing" if minor >= 5 else "Volta"
        case 8, _:
            return "Ada Lovelace" if minor == 9 else "Ampere"
        case _:
            return _FAMILIES.get(major)


def addressing_mode(number: int) -> str | None:
    """The addressing mode of `nvmlDeviceAddressingModeType_t`."""
    return ADDRESSING_MODES.get(number)


def multiprocessors(cores: int, capability: tuple[int, int]) -> int | None:
    """Multiprocessors of a GPU with `cores` CUDA cores; None where the ratio is not known to be exact."""
    per_multiprocessor = _CORES.get(capability)
    if per_multiprocessor is None or cores <= 0 or cores % per_multiprocessor:
        return None
    return cores // per_multiprocessor
