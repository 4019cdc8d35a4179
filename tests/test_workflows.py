"""What the workflows must hold; tools/toolkits.py rehearses them."""
import re
import shutil

import evidence
import programs
import pytest
from conftest import missing
from ruamel.yaml import YAML


def lint(github):
    """What zizmor and the schemas find."""
    for command in (
            ["zizmor", "--offline", "--no-progress", "--persona", "auditor",
             github],
            *(["check-jsonschema", "--builtin-schema", f"vendor.{schema}",
               *github.glob(pattern)] for schema, pattern in (
                ("github-workflows", "workflows/*.yml"),
                ("dependabot", "dependabot.yml")))):
        status, said = programs.sh(command)
        if status == 127:
            missing(said)
        if status:
            yield said


def rules(github):
    """What of ours they lack."""
    read = YAML(typ="safe").load
    flows = [read(github / f"workflows/{name}.yml") for name in ("ci", "gpu")]
    known = read(github / "actionlint.yaml")["self-hosted-runner"]["labels"]
    ci, gpu = flows
    jobs = {**ci["jobs"], **gpu["jobs"]}
    linux, lessons = jobs["linux"], jobs["lessons"]
    images = [one["image"] for one in linux["strategy"]["matrix"]["include"]]
    lists, presets = ((evidence.ROOT / name).read_text()
                      for name in ("CMakeLists.txt", "CMakePresets.json"))
    oldest = re.search(r"VERSION_LESS ([\d.]+)", lists)[1]
    uses = re.findall("uses: .*", "".join(
        path.read_text() for path in github.glob("workflows/*.yml")))
    return [why for holds, why in (
        (all("timeout-minutes" in job for job in jobs.values()),
         "a job has no time limit"),
        (all(job["permissions"] == {"contents": "read"}
             for job in jobs.values())
         and not any(flow["permissions"] for flow in flows),
         "a job may do more than read"),
        (all(re.search(r" # v[\d.]+$", use) for use in uses),
         "no version behind a commit"),
        (linux["steps"][-1].get("run") == "bash .ci/run",
         "linux does not end with .ci/run"),
        (all(re.search("@sha256:[0-9a-f]{64}$", image) for image in images),
         "an image without a digest"),
        (any(f"cuda:{oldest}." in image for image in images),
         f"no image with CUDA {oldest}, the oldest supported"),
        ("schedule" in ci["on"], "ci has no schedule"),
        (gpu["on"] == {"push": {"branches": ["main"]},
                       "workflow_dispatch": None},
         "gpu runs on other events"),
        ("github.ref == 'refs/heads/main' && !github.event.repository.fork"
         in lessons["if"], "gpu runs for other branches or forks"),
        ("cmake --workflow --preset gpu" in [
            step.get("run") for step in lessons["steps"]],
         "gpu does not run the preset gpu"),
        ("/" + lessons["steps"][-1]["with"]["path"] + '"' in presets,
         "gpu keeps a file that no preset writes"),
        ({one["label"] for one in lessons["strategy"]["matrix"]["include"]}
         <= {*known}, "actionlint.yaml does not know a label"))
        if not holds]


def test_workflows():
    github = evidence.ROOT / ".github"
    assert [*rules(github), *lint(github)] == []


@pytest.mark.parametrize("file, old, new, said", [
    ("ci.yml", r"@[0-9a-f]{40} # v", "@v", "unpinned-uses"),
    ("ci.yml", r"(@[0-9a-f]{39}). #", r"\1 #", "unpinned-uses"),
    ("ci.yml", r" # v5\.0\.0", "", "no version"),
    ("ci.yml", r"@sha256:[0-9a-f]+", "", "without a digest"),
    ("ci.yml", r"(@sha256:[0-9a-f]{63}).", r"\1", "without a digest"),
    ("ci.yml", "persist-credentials: false", "fetch-depth: 1", "artipacked"),
    ("ci.yml", "contents: read", "contents: write", "may do more"),
    ("ci.yml", "permissions: {}", "permissions: write-all", "may do more"),
    ("ci.yml", "run: bash", "runs: bash", "'runs'"),
    ("ci.yml", "    timeout-minutes: 10\n", "", "time limit"),
    ("ci.yml", "cuda:12.4", "cuda:12.6", "oldest supported"),
    ("ci.yml", "run: bash .ci/run", "run: 'true'", "end with .ci"),
    ("ci.yml", r"  schedule:.*\n.*\n", "", "no schedule"),
    ("gpu.yml", "workflow_dispatch", "pull_request", "other events"),
    ("gpu.yml", "main]", "dev]", "other events"),
    ("gpu.yml", "github.ref == 'refs/heads/main' && ", "", "branch"),
    ("gpu.yml", " && !github.event.repository.fork", "", "forks"),
    ("gpu.yml", "--workflow --preset", "--preset", "preset gpu"),
    ("gpu.yml", r"transcripts\.xml", "log.xml", "no preset writes"),
    ("gpu.yml", " # zizmor: ignore.*", "", "self-hosted-runner"),
    ("actionlint.yaml", "    - sm_90\n", "", "does not know"),
    ("dependabot.yml", "weekly", "yearly-ish", "yearly-ish")])
def test_planted(tmp_path, file, old, new, said):
    github = shutil.copytree(evidence.ROOT / ".github", tmp_path / ".github")
    [path] = github.rglob(file)
    text = path.read_text()
    path.write_text(re.sub(old, new, text))
    assert path.read_text() != text
    assert any(said in "\n".join(find(github)) for find in (rules, lint))
