from pathlib import Path, PurePosixPath

import pytest

from dra_driver.config.node import GpuEntry, MigMode
from dra_driver.errors import UsageError
from dra_driver.node.flags import parse


def test_defaults_are_the_kubelets_directories() -> None:
    settings = parse(["--node-name", "a"], {})

    assert Path("/var/lib/kubelet/plugins/gpu.nvidia.com") == settings.plugin_dir
    assert Path("/var/lib/kubelet/plugins_registry") == settings.kubelet_registry_dir
    assert Path("/var/run/cdi") == settings.cdi_dir
    assert (None, None, "nvml") == (settings.kubeconfig, settings.driver_root, settings.backend)


@pytest.mark.parametrize("variable", ["NVIDIA_DRIVER_ROOT", "HOST_DRIVER_ROOT", "DRIVER_ROOT"])
def test_variables_of_the_official_driver_are_understood(variable: str) -> None:
    settings = parse([], {"NODE_NAME": "a", variable: "/run/nvidia/driver"})

    assert PurePosixPath("/run/nvidia/driver") == settings.driver_root


@pytest.mark.parametrize(
    "flag",
    [
        "--cdi-root",
        "--cdi-dir",
        "--kubelet-plugins-directory-path",
        "--nvidia-driver-root",
    ],
)
def test_flags_of_the_official_driver_are_understood(flag: str) -> None:
    settings = parse(["--node-name=a", flag, "/given"], {})

    given = (settings.cdi_dir, settings.kubelet_plugins_dir, settings.driver_root)
    assert "/given" in {str(value) for value in given}


@pytest.mark.parametrize(
    ("arguments", "environment", "path"),
    [
        ([], {}, None),
        (["--nvidia-cdi-hook-path=/opt/hook"], {"NVIDIA_CDI_HOOK_PATH": "/usr/bin/hook"}, "/opt/hook"),
        ([], {"NVIDIA_CDI_HOOK_PATH": "/usr/bin/hook"}, "/usr/bin/hook"),
    ],
)
def test_the_hook_program_is_looked_for_unless_its_path_is_given(
    arguments: list[str], environment: dict[str, str], path: str | None
) -> None:
    assert path == parse(["--node-name=a", *arguments], environment).nvidia_cdi_hook_path


@pytest.mark.parametrize("address", [":8080", "127.0.0.1:0", "[::1]:8080", "localhost:65535"])
def test_addresses_to_listen_on(address: str) -> None:
    assert address == parse(["--node-name=a", "--http-endpoint", address], {}).metrics_address


def test_the_command_line_wins_over_the_environment_and_empty_means_unset() -> None:
    settings = parse(["--log-level", "debug"], {"NODE_NAME": "a", "LOG_LEVEL": "error", "LOG_FORMAT": ""})

    assert ("debug", "text") == (settings.log_level, settings.log_format)


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        ([], {}, r"--node-name \(or NODE_NAME\) is required"),
        (["--node-name", "a", "--cdi-dir", "run/cdi"], {}, "--cdi-dir: 'run/cdi' must be an absolute path"),
        (
            ["--node-name", "a", "--backend", "amd"],
            {},
            "--backend: 'amd' is neither nvml nor simulated:PROFILE",
        ),
        (["--node-name", "a", "--backend", "simulated:"], {}, "--backend: 'simulated:' is neither"),
        (["--node-name", "a", "--driver-name", "GPU_"], {}, "--driver-name: 'GPU_' must be a DNS subdomain"),
        (["--node-name", "a", "--driver-name", "../x"], {}, "--driver-name: '../x' must be a DNS subdomain"),
        (
            ["--node-name", "a"],
            {"LOG_LEVEL": "loud"},
            "LOG_LEVEL: 'loud' is none of debug, info, warning, error",
        ),
        (
            ["--node-name", "a", "--rescan-seconds", "0"],
            {},
            "--rescan-seconds: '0' must be a number from 0.1",
        ),
        (
            ["--node-name", "a", "--healthcheck-port", "70000"],
            {},
            "--healthcheck-port: '70000' must be a number",
        ),
        (
            ["--node-name", "a", "--nvidia-cdi-hook-path", "hook"],
            {},
            "-hook-path: 'hook' must be an absolute path",
        ),
        (["--node-name", "Node_1"], {}, "--node-name: 'Node_1' is no name that a Node can have"),
        (["--node-name", "a", "--pool-name", "a//gpu"], {}, "--pool-name: 'a//gpu' must be DNS subdomains"),
        (["--node-name", "a", "--pool-name", "x" * 254], {}, "--pool-name: 'x"),
        (["--node-name", "a", "--metrics-address", "8080"], {}, "--metrics-address: '8080' is not host:port"),
        (["--node-name", "a"], {"HTTP_ENDPOINT": "::1:80"}, "--metrics-address: '::1:80' is not host:port"),
        (["--node-name", "a", "--metrics-address", ":65536"], {}, "--metrics-address: ':65536' is not"),
        (["--node-name", "a", "--unknown"], {}, "unrecognized arguments: --unknown"),
        (["--node"], {}, "unrecognized arguments: --node"),
    ],
)
def test_what_is_wrong_is_named(arguments: list[str], environment: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(arguments, environment)


def test_gpus_are_offered_as_they_are_found_unless_a_flag_says_otherwise() -> None:
    assert MigMode.AUTO is parse(["--node-name=a"], {}).node_config.mig
    assert MigMode.DYNAMIC is parse(["--node-name=a", "--mig=dynamic"], {}).node_config.mig
    assert MigMode.OFF is parse(["--node-name=a"], {"MIG": "off"}).node_config.mig


def test_a_configuration_file_is_read_with_the_flag_as_its_default(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml"
    file.write_text("apiVersion: config.dra-driver.io/v1alpha1\nkind: NodeConfig\ngpus: [{shares: 2}]\n")
    config = parse(["--node-name=a", "--mig=static"], {"CONFIG": str(file)}).node_config

    assert (MigMode.STATIC, (GpuEntry(shares=2),)) == (config.mig, config.entries)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--mig=on"], "--mig: 'on' is none of auto, static, dynamic, off"),
        (["--config=/no/such/file"], "/no/such/file cannot be read: there is no such file"),
    ],
)
def test_a_wrong_mode_or_file_is_told(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(["--node-name=a", *arguments], {})
