"""What the workflows must hold; tools/toolkits.py rehearses them."""
import re
import shutil
import subprocess

import evidence
import pytest
from conftest import missing
from ruamel.yaml import YAML


def lint(github):
    """What zizmor and the schemas find."""
    commands = [["zizmor", "--offline", "--no-progress", "--persona",
                 "auditor", github]]
    for schema, pattern in (("github-workflows", "workflows/*.yml"),
                            ("dependabot", "dependabot.yml")):
        commands.append(["check-jsonschema", "--builtin-schema",
                         f"vendor.{schema}", *github.glob(pattern)])
    wrong = []
    for command in commands:
        if not shutil.which(command[0]):
            missing(f"{command[0]} not found")
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        wrong += [done.stdout] if done.returncode else []
    return wrong


def rules(github):
    """What of ours they lack."""
    wrong = []
    read = YAML(typ="safe").load
    ci, gpu = (read(github / f"workflows/{name}.yml")
               for name in ("ci", "gpu"))
    for flow in (ci, gpu):
        for name, job in flow["jobs"].items():
            if "timeout-minutes" not in job:
                wrong.append(f"{name}: no time limit")
            if flow["permissions"] or job["permissions"] != {
                    "contents": "read"}:
                wrong.append(f"{name}: may do more than read")
    for path in github.glob("workflows/*.yml"):
        wrong += [f"no version behind the commit: {use}" for use in re.findall(
            "uses: (.*)", path.read_text())
            if not re.search(" # v[0-9.]+$", use)]
    linux, lessons = ci["jobs"]["linux"], gpu["jobs"]["lessons"]
    if linux["steps"][-1]["run"] != "bash .ci/run":
        wrong.append("linux does not end with .ci/run")
    oldest = re.search(r"VERSION_LESS ([\d.]+)", (
        evidence.ROOT / "CMakeLists.txt").read_text())[1]
    images = [one["image"] for one in linux["strategy"]["matrix"]["include"]]
    if not any(f"cuda:{oldest}." in image for image in images):
        wrong.append(f"no image with CUDA {oldest}, the oldest supported")
    wrong += [f"no digest: {image}" for image in images
              if not re.search("@sha256:[0-9a-f]{64}$", image)]
    if "schedule" not in ci["on"]:
        wrong.append("ci has no schedule")
    if set(gpu["on"]) != {"push", "workflow_dispatch"} or gpu["on"][
            "push"] != {"branches": ["main"]}:
        wrong.append("gpu runs on other events")
    if "github.ref == 'refs/heads/main' && !github.event.repository.fork" \
            not in lessons["if"]:
        wrong.append("gpu runs for other branches or forks")
    runs = [step.get("run") for step in lessons["steps"]]
    if "cmake --workflow --preset gpu" not in runs:
        wrong.append("gpu does not run the preset gpu")
    if lessons["steps"][-1]["with"]["path"] not in "".join(re.findall(
            r"build-gpu/\S+\.xml", (evidence.ROOT /
                                    "CMakePresets.json").read_text())):
        wrong.append("gpu keeps a file that no preset writes")
    known = read(github / "actionlint.yaml")["self-hosted-runner"]["labels"]
    wrong += [f"actionlint.yaml does not know {one['label']}"
              for one in lessons["strategy"]["matrix"]["include"]
              if one["label"] not in known]
    return wrong


def test_workflows():
    github = evidence.ROOT / ".github"
    assert lint(github) + rules(github) == []


@pytest.mark.parametrize("file, old, new, said", [
    ("workflows/ci.yml", r"@[0-9a-f]{40} # v", "@v", "unpinned-uses"),
    ("workflows/ci.yml", r"(@[0-9a-f]{39}). #", r"\1 #", "unpinned-uses"),
    ("workflows/ci.yml", r" # v5\.0\.0", "", "no version"),
    ("workflows/ci.yml", r"@sha256:[0-9a-f]+", "", "no digest"),
    ("workflows/ci.yml", "persist-credentials: false", "fetch-depth: 1",
     "artipacked"),
    ("workflows/ci.yml", "contents: read", "contents: write", "may do more"),
    ("workflows/ci.yml", "permissions: {}", "permissions: write-all",
     "more than read"),
    ("workflows/ci.yml", "run: bash", "runs: bash", "'runs'"),
    ("workflows/ci.yml", "    timeout-minutes: 10\n", "", "time limit"),
    ("workflows/ci.yml", "cuda:12.4", "cuda:12.6", "oldest supported"),
    ("workflows/ci.yml", "run: bash .ci/run", "run: 'true'", "end with .ci"),
    ("workflows/ci.yml", r"  schedule:.*\n.*\n", "", "no schedule"),
    ("workflows/gpu.yml", "workflow_dispatch", "pull_request", "other events"),
    ("workflows/gpu.yml", "main]", "dev]", "other events"),
    ("workflows/gpu.yml", "github.ref == 'refs/heads/main' && ", "", "branch"),
    ("workflows/gpu.yml", " && !github.event.repository.fork", "", "forks"),
    ("workflows/gpu.yml", "--workflow --preset", "--preset", "preset gpu"),
    ("workflows/gpu.yml", r"transcripts\.xml", "log.xml", "no preset writes"),
    ("workflows/gpu.yml", " # zizmor: ignore.*", "", "self-hosted-runner"),
    ("actionlint.yaml", "    - sm_90\n", "", "does not know sm_90"),
    ("dependabot.yml", "weekly", "yearly-ish", "yearly-ish")])
def test_planted(tmp_path, file, old, new, said):
    github = shutil.copytree(evidence.ROOT / ".github", tmp_path / ".github")
    text = (github / file).read_text()
    changed = re.sub(old, new, text)
    assert changed != text
    (github / file).write_text(changed)
    try:
        wrong = rules(github)
    except KeyError:  # for the schema to say
        wrong = []
    assert said in "\n".join(wrong) or said in "\n".join(lint(github))
