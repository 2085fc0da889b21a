# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs of an image, and the source of its packages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lab import image, mirror, recipe
from lab.errors import HostError, UsageError
from lab.kernel_kinds import KERNELS
from lab.mirror import Source
from lab.recipe import Recipe

STOCK = KERNELS["stock"]
HOST = [
    Source("http://mirror/debian/", "bookworm"),
    Source("http://mirror/debian/", "bookworm-updates"),
    Source("http://mirror/security/", "bookworm-security"),
    Source("http://elsewhere/", "stable"),
]


@pytest.mark.parametrize("changed", [None, *recipe.BUILT_BY])
def test_digest_covers_release_kernel_and_build_files(
    changed: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Recipe("bookworm", STOCK, "6.1.1").digest
    for name in recipe.BUILT_BY:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(Path(recipe.__file__).parent / name, tmp_path / name)
    monkeypatch.setattr(recipe, "__file__", str(tmp_path / "recipe.py"))
    if changed is None:
        assert Recipe("bookworm", STOCK, "6.1.1").digest == before
        others = (("trixie", STOCK, "6.1.1"), ("bookworm", KERNELS["uml"], "6.1.1"), ("bookworm", STOCK, "6.1.2"))
        assert before not in {Recipe(*other).digest for other in others}
    else:
        with (tmp_path / changed).open("a") as file:
            file.write("# changed\n")
        assert Recipe("bookworm", STOCK, "6.1.1").digest != before


def test_unknown_release() -> None:
    with pytest.raises(UsageError, match="release 'sarge': expected one of bookworm, bullseye, trixie, sid"):
        recipe.recipe("sarge", STOCK)


def test_name_of_an_image() -> None:
    wanted = recipe.recipe("bookworm", STOCK)
    assert wanted.name == f"bookworm-stock-{wanted.digest}"


def test_only_outdated_images_of_the_kind_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without user-mode Linux can have stock images only."""
    monkeypatch.setattr(image, "IMAGES", tmp_path)
    monkeypatch.setenv("PATH", "")
    current = recipe.recipe("bookworm", STOCK).name
    for name in (current, "bookworm-stock-0", "trixie-stock-used", "bookworm-uml-0"):
        (tmp_path / name).mkdir()
    assert image.prune(STOCK, {str(tmp_path / "trixie-stock-used")}) == ["bookworm-stock-0"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([current, "bookworm-uml-0", "trixie-stock-used"])


def test_sources_of_the_running_release() -> None:
    assert mirror.sources_for("bookworm", HOST, "bookworm", lambda _: True) == HOST[:3]


def test_sources_of_another_release_come_from_the_same_mirrors() -> None:
    sources = mirror.sources_for("trixie", HOST, "bookworm", lambda _: True)
    assert sources == [Source(uri, suite.replace("bookworm", "trixie")) for uri, suite in HOST[:3]]


def test_suites_that_a_mirror_lacks_are_left_out() -> None:
    sources = mirror.sources_for("bullseye", HOST, "bookworm", lambda source: source.suite == "bullseye")
    assert sources == [Source("http://mirror/debian/", "bullseye")]


def test_no_mirror_has_the_release() -> None:
    with pytest.raises(
        HostError, match=r"no package mirror with Debian bullseye \(tried: http://elsewhere/, http://mirror/debian/"
    ):
        mirror.sources_for("bullseye", HOST, "bookworm", lambda source: source.suite == "bullseye-security")


def test_release_can_be_overridden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(mirror.OVERRIDE, "http://archive/debian")
    sources = mirror.sources_for("bullseye", HOST, "bookworm", lambda source: source.uri == "http://archive/debian")
    assert sources == [Source("http://archive/debian", "bullseye"), Source("http://archive/debian", "bullseye-updates")]
