"""`nextok train` and `--resume`: where options come from, what is refused, what is left behind."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nextok.checkpoint import RunDirectory, load_snapshot

from .conftest import TINY, Nextok

TEXT = "the cat sat on the mat and the dog sat on the cat. " * 60


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "my text é.txt"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def test_text_becomes_a_run_directory_in_a_folder_with_spaces(nextok: Nextok, text: str) -> None:
    out = "my runs é/run one"
    code, shown, err = nextok("train", text, "--out", out, "--tokenizer", "char", "--steps", "12", *TINY)
    assert code == 0, err
    for name in ("config.json", "model.safetensors", "tokenizer.json", "run.json", "metrics.jsonl", "plots/loss.png"):
        assert Path(out, name).is_file()
    assert "best validation loss" in shown
    assert nextok("info", out)[0] == 0
    assert nextok("generate", out, "--prompt", "the", "--max-new-tokens", "3")[0] == 0


def test_flag_wins_over_set_and_file_and_file_over_recipe(nextok: Nextok, text: str, tmp_path: Path) -> None:
    Path("run.toml").write_text(
        'recipe = "classic"\nsteps = 3\n[train]\nlr = 0.5\nbeta1 = 0.5\nweight_decay = 0.5\n', encoding="utf-8"
    )
    flags = ["--config", "run.toml", "--set", "train.beta1=0.6", "--weight-decay", "0.7", "--tokenizer", "char"]
    code, _, err = nextok("train", text, "--out", "run", *flags, *TINY)
    assert code == 0, err
    train = RunDirectory(Path("run")).read_run()["options"]["train"]
    assert (train["lr"], train["beta1"], train["weight_decay"], train["beta2"]) == (0.5, 0.6, 0.7, 0.99)


def test_text_values_keep_their_text(nextok: Nextok, text: str) -> None:
    code, _, err = nextok(
        "train", text, "--out", "run", "--tokenizer", "byte", "--steps", "1", "--set", "train.sample_prompt=1+1=", *TINY
    )
    assert code == 0, err
    assert RunDirectory(Path("run")).read_run()["options"]["train"]["sample_prompt"] == "1+1="


def test_result_is_one_json_object_with_units_in_its_names(nextok: Nextok, text: str) -> None:
    code, out, err = nextok("train", text, "--out", "run", "--tokenizer", "char", "--steps", "4", "--json", *TINY)
    assert code == 0
    result = json.loads(out)
    assert (result["step"], result["steps"], result["tokens"]) == (4, 4, 4 * 4 * 16)
    assert result["val_bits_per_byte"] > 0
    assert "step=" in err


def test_pause_and_resume_from_the_command_line(nextok: Nextok, text: str) -> None:
    base = ["train", text, "--tokenizer", "char", "--steps", "20", *TINY]
    assert nextok(*base, "--out", "whole")[0] == 0
    code, out, _ = nextok(*base, "--out", "halves", "--pause-after-steps", "10")
    assert code == 0
    assert "--resume --out halves" in out
    assert nextok("train", "--resume", "--out", "halves")[0] == 0
    snapshots = [load_snapshot(RunDirectory(Path(name)))[0] for name in ("whole", "halves")]
    for group in ("weights", "optimizer"):
        for name, array in snapshots[0].arrays[group].items():
            assert (array == snapshots[1].arrays[group][name]).all(), name


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--steps", "5", "--minutes", "1"], "given twice: steps and minutes"),
        (["--preset", "nanoo"], "no preset 'nanoo'. Did you mean 'nano'?"),
        (["--recipe", "modrn"], "Did you mean 'modern'?"),
        (["--set", "train.lrr=1"], "Unknown option 'lrr' in train. Did you mean 'lr'?"),
        (["--set", "train.lr"], "has no value"),
        (["--config", "absent.toml"], "absent.toml"),
        (["--lr", "nan"], "lr = nan"),
        (["--d-model", "30", "--n-heads", "4"], "not divisible by n_heads = 4"),
        (["--tokenizer", "bpe:12"], "vocabulary of 12 has no room"),
        (["--context", "100000"], "needs 100001"),
        (["--val-fraction", "1.5"], "val_fraction"),
        (["--tokens", "lots"], "not a count"),
        (["--resume"], "no run at run"),
    ],
)
def test_bad_input_ends_with_2_and_leaves_nothing(nextok: Nextok, text: str, arguments: list[str], said: str) -> None:
    code, out, err = nextok("train", text, "--out", "run", "--steps", "1", *arguments)[0:3]
    if "--tokens" in arguments:
        code, out, err = nextok("train", text, "--out", "run", *arguments)
    assert code == 2
    assert re.sub(r"\s+", " ", said) in re.sub(r"\s+", " ", err + out)
    assert not Path("run").exists()


def test_wrong_flag_ends_with_2(nextok: Nextok, text: str) -> None:
    code, out, err = nextok("train", text, "--out", "run", "--learning-rate", "1")
    assert code == 2
    assert "learning-rate" in err + out


def test_resumed_run_takes_flags_sets_and_files(nextok: Nextok, text: str) -> None:
    base = ["train", text, "--tokenizer", "char", "--steps", "6", *TINY]
    assert nextok(*base, "--out", "run", "--pause-after-steps", "2")[0] == 0
    assert nextok("train", "--resume", "--out", "run", "--set", "train.lr=5e-5")[0] == 0
    assert RunDirectory(Path("run")).read_run()["options"]["train"]["lr"] == 5e-5
    code, _, err = nextok("train", "--resume", "--out", "run", "--steps", "2")
    assert code == 2
    assert "already has 6 steps" in err


def test_resume_without_a_place_says_what_is_missing(nextok: Nextok) -> None:
    code, _, err = nextok("train", "--resume")
    assert code == 2
    assert "--out" in err


def test_second_signal_in_the_middle_of_saving_harms_nothing(tmp_path: Path, text: str) -> None:
    """Saves after every step, so that signals land in saves; the run must still resume."""
    arguments = [text, "--out", "run", "--tokenizer", "char", "--steps", "2000", "--save-every-steps", "1", *TINY]
    process = subprocess.Popen(
        [sys.executable, "-m", "nextok", "train", *arguments, "--eval-every-steps", "2000"],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ.copy(),
    )  # fmt: skip
    latest = tmp_path / "run" / "checkpoints" / "LATEST"
    deadline = time.monotonic() + 60
    while not latest.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    snapshot, _ = load_snapshot(RunDirectory(tmp_path / "run"))
    assert snapshot.step >= 1


def test_a_model_is_trained_further_by_adapters_from_the_command_line(nextok: Nextok, trained: Path) -> None:
    lines = [json.dumps({"prompt": "abc ", "completion": "jkl. "}) for _ in range(40)]
    Path("pairs.jsonl").write_text("\n".join(lines), encoding="utf-8")
    few = ["--steps=4", "--batch-size=4", "--sample-tokens=0", "--threads=1"]
    code, shown, err = nextok("train", "pairs.jsonl", "--init-from", str(trained), "--lora", "4", "--out", "run", *few)
    assert code == 0, err
    assert "parameters are trained" in shown
    assert re.search(r"^step=0 .* val_loss=", shown, re.MULTILINE)
    options = RunDirectory(Path("run")).read_run()["options"]
    assert (options["lora"], options["train"]["lr"], options["model"]["d_model"]) == (4, 1e-3, 16)
    code, _, err = nextok("train", "pairs.jsonl", "--init-from", str(trained), "--d-model", "32", "--out", "no", *few)
    assert (code, "d_model = 32 contradicts" in err) == (2, True)
    assert nextok("train", "--resume", "--out", "run")[0] == 0
    code, _, err = nextok("train", "--resume", "--out", "run", "--lora", "8")
    assert "cannot change lora" in err
