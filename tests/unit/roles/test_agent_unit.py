# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's unit as the role renders it: memory limit, network filter, exposure.

The scenario sandbox rates the running unit on two releases of systemd.
"""

from __future__ import annotations

import ipaddress
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment, StrictUndefined

ROOT = Path(__file__).resolve().parents[3]
ROLE = ROOT / "roles/agent"
PAGES = ROOT / "docs"
MOST_EXPOSURE = 15  # tenths


def unit(**given: Any) -> str:
    """Render the unit with the role's defaults."""
    known: dict[str, Any] = {}
    for part in ("defaults", "vars"):
        known.update(yaml.safe_load((ROLE / part / "main.yml").read_text(encoding="utf-8")))
    known["agent_arguments"] = []
    template = (ROLE / "templates/kubenode-agent.service.j2").read_text(encoding="utf-8")
    return Environment(undefined=StrictUndefined).from_string(template).render(**{**known, **given})


def setting(text: str, name: str) -> str:
    (value,) = re.findall(rf"(?m)^{name}=(.*)$", text)
    return str(value)


def documented() -> dict[str, float]:
    """Return KiB for each object, from the page on sizes."""
    page = (PAGES / "how-to/size.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"(?m)^\| ([^|]+) \| ([\d,.]+) \|$", page))
    return {name.partition(":")[0].strip(): float(value.replace(",", "")) for name, value in rows.items()}


def mebibytes(services: int, endpoints: int) -> float:
    """Return the memory in MiB that the table gives for so many Services with so many endpoints each."""
    sizes = documented()
    service, each = sizes["a Service with one virtual server"], sizes["an endpoint behind one virtual server"]
    return (sizes["nothing"] + services * (service + endpoints * each)) / 1024


def test_memory_limit_is_twice_the_documented_cluster() -> None:
    """The page derives it from the measured size of a Service and of an endpoint (tests/bench/memory.py)."""
    page = " ".join((PAGES / "how-to/size.md").read_text(encoding="utf-8").split())
    stated = re.search(r"twice what ([\d,]+) Services with (\d+) endpoints each take \((\d+) MiB\)", page)
    assert stated is not None
    services, endpoints, figure = (int(text.replace(",", "")) for text in stated.groups())
    assert mebibytes(services, endpoints) == pytest.approx(figure, rel=0.02)
    smaller = re.search(r"([\d,]+) Services with (\d+) endpoints each take (\d+) MiB", page)
    assert smaller is not None
    assert mebibytes(int(smaller[1].replace(",", "")), int(smaller[2])) == pytest.approx(int(smaller[3]), rel=0.02)
    limit = setting(unit(), "MemoryMax")
    assert limit.endswith("G")  # systemd counts in powers of 1024
    assert f"`MemoryMax`), {limit[:-1]} GiB by default" in page
    assert 2 * figure <= int(limit[:-1]) * 1024 <= 2.25 * figure


def test_memory_limit_holds_the_largest_services() -> None:
    page = " ".join((PAGES / "how-to/size.md").read_text(encoding="utf-8").split())
    large = re.search(r"which is (\d+) MiB", page)
    beside = re.search(r"([\d,]+) of them beside (\d+) Services of the largest size take (\d+) MiB", page)
    assert large is not None
    assert beside is not None
    sum_of_both = mebibytes(int(beside[1].replace(",", "")), 10) + int(beside[2]) * int(large[1])
    assert round(sum_of_both) == int(beside[3])
    assert sum_of_both <= int(setting(unit(), "MemoryMax")[:-1]) * 1024


@pytest.mark.parametrize("value", ["2G", "infinity"])
def test_memory_limit_follows_the_variable(value: str) -> None:
    assert setting(unit(agent_memory_max=value), "MemoryMax") == value


def allowed(text: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    assert setting(text, "IPAddressDeny") == "any"
    words = setting(text, "IPAddressAllow").split()
    return [ipaddress.ip_network({"localhost": "127.0.0.0/8"}.get(word, word)) for word in words]


def test_network_filter_denies_multicast_alone() -> None:
    networks = allowed(unit())
    for version, multicast in ((4, "224.0.0.0/4"), (6, "ff00::/8")):
        whole = ipaddress.ip_network("0.0.0.0/0" if version == 4 else "::/0")
        mine = [net for net in networks if net.version == version]
        assert (
            sum(net.num_addresses for net in mine)
            == whole.num_addresses - ipaddress.ip_network(multicast).num_addresses
        )
        assert not any(ipaddress.ip_network(multicast).overlaps(net) for net in mine)


def test_network_filter_is_what_the_operator_names() -> None:
    networks = ["192.0.2.0/24", "2001:db8::/32"]
    assert list(map(str, allowed(unit(agent_networks=networks)))) == ["127.0.0.0/8", *networks]


def rated(tmp_path: Path, text: str, *options: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "kubenode-agent.service"
    path.write_text(text)
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", *options, str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_exposure_is_at_most_the_documented_figure(tmp_path: Path) -> None:
    page = (PAGES / "explanation/sandbox.md").read_text(encoding="utf-8")
    assert f"gives the unit {MOST_EXPOSURE / 10} (0 is" in " ".join(page.split())
    done = rated(tmp_path, unit(), f"--threshold={MOST_EXPOSURE}")
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def tenths(rows: Iterable[tuple[str, str]]) -> Counter[str]:
    """Return the points of each setting, added up in tenths."""
    counts: Counter[str] = Counter()
    for name, points in rows:
        counts[name] += round(float(points) * 10)
    return counts


def test_each_remaining_point_has_its_reason(tmp_path: Path) -> None:
    page = (PAGES / "explanation/sandbox.md").read_text(encoding="utf-8").partition("still counts")[2]
    explained = re.findall(r"(?m)^\| `(\w+)`[^|]* \| ([\d.]+) \| [^|]+ \|$", page)
    capabilities = {"CAP_NET_ADMIN": "CAP_NET_ADMIN", "CAP_NET_(BIND_SERVICE|BROADCAST|RAW)": "CAP_NET_RAW"}
    counted = []
    for row in json.loads(rated(tmp_path, unit(), "--json=short").stdout):
        name, _equals, value = row["name"].partition("=")
        if row["exposure"] is not None:
            counted.append((capabilities.get(value[1:], name.partition("=")[0]), row["exposure"]))
    assert tenths(counted) == tenths(explained)
