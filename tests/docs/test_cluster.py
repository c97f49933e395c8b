"""The examples for clusters, which no test can start: what they say is well formed, and says what they need."""

import re
import shlex
import subprocess

import pytest

from nextok.cli.options import read_early
from nextok.train import RunOptions, run_options

from .blocks import ROOT, blocks_of

BLOCKS = blocks_of(ROOT / "docs" / "cluster.md")
SCRIPT = next(block.text for block in BLOCKS if block.language == "sh")
YAML = next(block.text for block in BLOCKS if block.language == "yaml")


def check_shell(script: str, shell: str) -> None:
    done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def check_options(text: str) -> None:
    """Every command that trains names options that there are, and a batch that the processes can share."""
    arguments = shlex.split(text)
    values = read_early(RunOptions, [each for each in arguments if each.startswith("--set")]).values
    known = {f"--{name.replace('_', '-')}" for table in (RunOptions, *nested()) for name in table.__dataclass_fields__}
    unknown = [each for each in arguments if each.startswith("--") and each not in known | {"--resume"}]
    assert not unknown
    assert run_options({**values, "steps": 1})
    if "--batch-size" in arguments:
        assert int(arguments[arguments.index("--batch-size") + 1]) % 16 == 0  # two machines of eight


def nested() -> list[type]:
    options = RunOptions()
    return [type(options.train), type(options.model), type(options.corpus)]


def test_the_slurm_script_is_a_script_that_starts_a_run_or_goes_on_with_it() -> None:
    check_shell(SCRIPT, "bash")
    first, again = re.findall(r"^\s*what=\((.*)\)$", SCRIPT, re.MULTILINE)
    check_options(first)
    check_options(again)
    assert "#SBATCH --signal=TERM@" in SCRIPT and "srun" in SCRIPT and '-m nextok train "${what[@]}"' in SCRIPT


def test_the_kubernetes_objects_belong_together() -> None:
    yaml = pytest.importorskip("yaml", reason="needs PyYAML to read the example")
    service, job = yaml.safe_load_all(YAML)
    assert (service["kind"], job["kind"], job["spec"]["completionMode"]) == ("Service", "Job", "Indexed")
    pod = job["spec"]["template"]["spec"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert service["metadata"]["name"] == pod["subdomain"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"]
    container = pod["containers"][0]
    script = container["args"][0]
    check_shell(script, "sh")
    for line in re.findall(r"^\s*set -- (.*)$", script, re.MULTILINE):
        check_options(line)
    assert f"--nnodes={job['spec']['completions']} " in script
    assert f"--nproc-per-node={container['resources']['limits']['nvidia.com/gpu']} " in script
    assert f"--master-addr={job['metadata']['name']}-0.{pod['subdomain']} " in script
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
