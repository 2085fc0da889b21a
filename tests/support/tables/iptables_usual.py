# Copyright (c) 2026, the kubenode.ipvs authors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules in the spelling of operators, one a line, by family and table. iptables-save spells most differently."""

from __future__ import annotations

from .iptables_spelling import CHAIN, SET

_FILTER = (
    r"""
-p tcp -m multiport --dports 80,443,8000:8100 -j ACCEPT
-p tcp --match multiport --destination-ports http,https -j ACCEPT
-p udp -m multiport ! --sports 53 -j DROP
-p tcp -m multiport --port 80 -j DROP
-s 10.0.0.0/8,192.168.0.0/16 -j ACCEPT
-s 10.0.0.1,10.0.0.2 -d 10.1.0.1,10.1.0.2 -j ACCEPT
! -s 10.0.0.0/255.0.0.0 -j DROP
-s 10.0.0.0/255.0.255.0 -j DROP
-s localhost -j ACCEPT
-p icmp --icmp-type echo-request -j ACCEPT
-p icmp -m icmp --icmp-type 8/0 -j ACCEPT
-p icmp --icmp-type 3/4 -j ACCEPT
-p icmp --icmp-type any -j ACCEPT
-p icmp ! --icmp-type destination-unreachable -j ACCEPT
-p 1 -j ACCEPT
-p all -j ACCEPT
-p 0 -j ACCEPT
-p 47 -j ACCEPT
-p gre -j ACCEPT
-p esp -m esp --espspi 500 -j ACCEPT
-p ah -m ah --ahspi 500:600 -j ACCEPT
-p vrrp -j ACCEPT
-p 112 -j ACCEPT
-p 253 -j ACCEPT
-p ospf -d 224.0.0.5 -j ACCEPT
-p sctp --dport 132 -j ACCEPT
-p sctp -m sctp --chunk-types any INIT,DATA -j ACCEPT
-p dccp --dport 80 -j ACCEPT
! -p tcp -j ACCEPT
-p tcp --dport :1024 -j ACCEPT
-p tcp --dport 1024: -j ACCEPT
-p tcp --sport 0:65535 -j ACCEPT
-p tcp --dport ssh -j ACCEPT
-p tcp --dport ftp:http -j ACCEPT
-p tcp --dport 010 -j ACCEPT
-p udp --dport 010:011 -j ACCEPT
-p tcp -m multiport --dports 010,0x50 -j ACCEPT
-p tcp --tcp-flags ALL SYN,ACK -j ACCEPT
-p tcp --tcp-flags SYN,RST,ACK,FIN SYN -j ACCEPT
-p tcp ! --syn -m state --state NEW -j DROP
-p tcp --tcp-option 2 -j ACCEPT
-p tcp -m tcpmss --mss 1:500 -j DROP
-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-m conntrack --ctstate established,related -j ACCEPT
-m conntrack ! --ctstate INVALID --ctdir ORIGINAL -j ACCEPT
-m conntrack --ctproto 6 --ctorigdst 10.0.0.1 --ctorigdstport 80 -j ACCEPT
-m conntrack --ctstatus ASSURED,SEEN_REPLY -j ACCEPT
-m conntrack --ctexpire 10:100 -j ACCEPT
-m state --state NEW,ESTABLISHED -j ACCEPT
-m limit --limit 5/minute -j ACCEPT
-m limit --limit 7/s --limit-burst 20 -j ACCEPT
-m limit --limit 3000/sec -j ACCEPT
-m limit --limit 11/hour --limit-burst 5 -j ACCEPT
-m hashlimit --hashlimit-name ssh --hashlimit-upto 5/min --hashlimit-mode srcip -j ACCEPT
-m hashlimit --hashlimit-name web --hashlimit-above 100/sec --hashlimit-burst 200 --hashlimit-mode srcip,dstport -j DROP
-m hashlimit --hashlimit-name bytes --hashlimit-above 512kb/s --hashlimit-burst 1mb --hashlimit-mode srcip"""
    r""" --hashlimit-srcmask 24 -j DROP
-m hashlimit --hashlimit 10/sec --hashlimit-name old --hashlimit-mode srcip -j DROP
-m connlimit --connlimit-above 16 --connlimit-mask 24 -j DROP
-p tcp --syn -m connlimit --connlimit-upto 2 --connlimit-daddr -j ACCEPT
-m connbytes --connbytes 1000:20000 --connbytes-dir both --connbytes-mode bytes -j DROP
-m addrtype --dst-type LOCAL -j ACCEPT
-m addrtype ! --src-type LOCAL,BROADCAST -j ACCEPT
-m addrtype --dst-type MULTICAST,LOCAL -j ACCEPT
-m recent --name bad --set -j DROP
-m recent --name bad --update --seconds 60 --hitcount 4 -j DROP
-m recent --rcheck --rttl --name bad --rdest --seconds 30 -j DROP
-m recent --remove -j DROP
-m mark --mark 1 -j ACCEPT
-m mark --mark 0x10/0xff -j ACCEPT
-m mark ! --mark 0 -j ACCEPT
-m connmark --mark 7/0xf -j ACCEPT
-m comment --comment word -j ACCEPT
-m comment --comment "it's \"quoted\"" -j ACCEPT
-m comment --comment "back\\slash" -j ACCEPT
-m comment --comment 'single' -j ACCEPT
-m comment --comment "" -j ACCEPT
-m comment --comment "ünïcode € ✓" -j ACCEPT
-m comment --comment "uses --match-set nosuch src" -j ACCEPT
-m comment --comment "# 2" -j ACCEPT
-m comment --comment "-j DROP" -j ACCEPT
-i eth+ -j ACCEPT
-i + -j ACCEPT
! -i lo -j ACCEPT
-m set --match-set NETS src,dst -j ACCEPT
-m set --match-set "NETS" src,dst -j ACCEPT
-m set ! --match-set NETS src,dst --return-nomatch -j ACCEPT
-m set --match-set NETS src,dst ! --update-counters -j ACCEPT
-m set --match-set NETS src,dst --packets-gt 5 -j ACCEPT
-m set --set NETS src,dst -j ACCEPT
-m iprange --src-range 10.0.0.1-10.0.0.9 -j ACCEPT
-m iprange ! --dst-range 10.0.0.1-10.0.0.9 -j ACCEPT
-m length --length 0:100 -j ACCEPT
-m length --length 64 -j ACCEPT
-m mac --mac-source aa:bb:cc:dd:ee:0f -j ACCEPT
-m pkttype --pkt-type multicast -j ACCEPT
-m ttl --ttl-gt 5 -j ACCEPT
-m tos --tos Minimize-Delay -j ACCEPT
-m tos --tos 0x10/0x3f -j ACCEPT
-m dscp --dscp-class EF -j ACCEPT
-m dscp --dscp 0x2e -j ACCEPT
-m ecn --ecn-tcp-cwr -p tcp -j ACCEPT
-m u32 --u32 0>>22&0x3C@0>>24=0 -j ACCEPT
-m u32 --u32 "6&0xFF=0x6 && 4&0x1FFF=0" -j ACCEPT
-m string --string "GET /" --algo bm -j DROP
-m string --hex-string |0d0a| --algo kmp --from 10 --to 200 -j DROP
-m string --algo bm --icase --string evil -j DROP
-m statistic --mode random --probability 0.33 -j ACCEPT
-m statistic --mode nth --every 3 --packet 0 -j ACCEPT
-m statistic --mode random ! --probability .5 -j ACCEPT
-m time --timestart 08:00 --timestop 18:00 --weekdays Mon,Tue,Fri -j ACCEPT
-m time --datestart 2026-01-01 --datestop 2026-12-31T23:59:59 --kerneltz -j ACCEPT
-m quota --quota 1000000 -j ACCEPT
-m helper --helper ftp -j ACCEPT
-m policy --pol ipsec --dir in --proto esp -j ACCEPT
-m policy --dir in --pol none -j ACCEPT
-m realm --realm 5 -j ACCEPT
-m socket --transparent -j ACCEPT
-m cpu --cpu 0 -j ACCEPT
-m cluster --cluster-total-nodes 2 --cluster-local-node 1 --cluster-hash-seed 0xdeadbeef -j ACCEPT
-m devgroup --src-group 5 -j ACCEPT
-m bpf --bytecode "4,48 0 0 9,21 0 1 6,6 0 0 1,6 0 0 0" -j ACCEPT
-f -j ACCEPT
! -f -j ACCEPT
-j LOG
-j LOG --log-prefix "dropped: " --log-level debug
-j LOG --log-level 4 --log-tcp-options --log-ip-options --log-uid
-j LOG --log-prefix plain
-j NFLOG --nflog-group 2 --nflog-prefix "x y"
-j NFQUEUE --queue-num 3 --queue-bypass
-j NFQUEUE --queue-balance 0:3 --queue-cpu-fanout
-j RETURN
-j OTHER
-g OTHER
--goto OTHER
-j SET --add-set NETS src,dst --exist --timeout 60
-j SET --del-set NETS src,dst
-j AUDIT --type accept
-j CLASSIFY --set-class 1:10
-j TEE --gateway 10.0.0.9
-p tcp
-c 10 100 -j ACCEPT
-4 -s 10.0.0.1 -j ACCEPT
-6 -s fd00::1 -j ACCEPT
-p tcp -m tcp -m tcp --dport 80 -j ACCEPT
-p tcp --sport 1 -m comment --comment x --dport 80 -j ACCEPT
-j ACCEPT -m comment --comment after
-m owner --uid-owner root -j ACCEPT
-m owner ! --gid-owner 1000-2000 -j ACCEPT
-m cgroup --cgroup 7 -j ACCEPT
-j DROP
-j REJECT
-j REJECT --reject-with icmp-host-prohibited
-j REJECT --reject-with host-prohib
-j REJECT --reject-with icmp-admin-prohibited
-p tcp -j REJECT --reject-with tcp-reset
-p tcp -j REJECT --reject-with tcp-rst
-j REJECT --reject-with port-unreach
"""
)
# Characters that other programs treat as the end of a line.
_ODD = [f'-m comment --comment "one{char}two" -j ACCEPT' for char in "\t\x0b\x0c\x1c\x85\u2028"]
_FILTER_6 = """
-s 2001:DB8::1 -j ACCEPT
-s fd00::/8,fe80::/10 -j ACCEPT
-p icmpv6 --icmpv6-type router-advertisement -j ACCEPT
-p ipv6-icmp -m icmp6 --icmpv6-type 133 -j ACCEPT
-p 58 -j ACCEPT
-p icmp -j ACCEPT
-p icmpv6 --icmpv6-type echo-request -m limit --limit 5/sec -j ACCEPT
-p ipv6-icmp --icmpv6-type 1/4 -j DROP
-m rt --rt-type 0 -j DROP
-m hl --hl-eq 255 -j ACCEPT
-m frag --fragmore -j DROP
-m eui64 -j ACCEPT
-m ipv6header --header frag --soft -j DROP
-m hbh -j ACCEPT
-m dst --dst-len 8 -j ACCEPT
-m mac --mac-source AA:BB:CC:DD:EE:FF -j ACCEPT
-j REJECT
-j REJECT --reject-with adm-prohibited
-j REJECT --reject-with icmp6-adm-prohibited
-j REJECT --reject-with icmp6-policy-fail
-p tcp -j REJECT --reject-with tcp-reset
-j REJECT --reject-with no-route
-m iprange --src-range fd00::1-fd00::9 -j ACCEPT
-s fd00::/ffff:ff00:: -j ACCEPT
-m set --match-set NETS src,dst -j ACCEPT
-p all -j ACCEPT
-s ::ffff:10.0.0.1 -j ACCEPT
-j LOG --log-prefix six
-m connlimit --connlimit-above 3 -j DROP
-m hashlimit --hashlimit-name v6 --hashlimit-upto 5/min --hashlimit-mode srcip --hashlimit-srcmask 64 -j ACCEPT
"""
_MANGLE = """
-j MARK --set-mark 5
-j MARK --set-mark 0x5/0xff
-j MARK --or-mark 8
-j MARK --and-mark 0xfff0
-j MARK --xor-mark 3
-j MARK --set-xmark 0x1/0x1
-j CONNMARK --save-mark
-j CONNMARK --restore-mark --nfmask 0xff --ctmask 0xff
-j CONNMARK --set-mark 7
-j CONNMARK --set-xmark 7/0xf
-j CONNMARK --save-mark --mask 0xff
-p tcp -j TPROXY --on-port 1080 --on-ip 127.0.0.1 --tproxy-mark 1
-p udp -j TPROXY --tproxy-mark 0x1/0x1 --on-port 1080
-p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
-p tcp --syn -j TCPMSS --set-mss 1400
-j DSCP --set-dscp-class AF11
-j DSCP --set-dscp 10
-j TOS --set-tos 0x10
-j TOS --set-tos Maximize-Throughput
-j TOS --and-tos 0x3
-j TTL --ttl-inc 1
-j TTL --ttl-set 64
-j CHECKSUM --checksum-fill -p udp
-j HMARK --hmark-tuple src,dst --hmark-mod 4 --hmark-offset 100 --hmark-rnd 0x1
-p tcp -j ECN --ecn-tcp-remove
-p tcp -j TCPOPTSTRIP --strip-options sack-permitted,timestamp
"""
_NAT = """
-j MASQUERADE
-p tcp -j MASQUERADE --to-ports 1024-2048
-j MASQUERADE --random
-p tcp -j DNAT --to 10.0.0.9:80
-j DNAT --to-destination 10.0.0.9-10.0.0.12 --persistent
-j SNAT --to 192.0.2.1
-p udp -j SNAT --to-source 192.0.2.1-192.0.2.9:1024-65535 --random-fully
-p tcp -j REDIRECT --to-port 3128
-p tcp -j REDIRECT --to-ports 3128-3130 --random
-j NETMAP --to 10.9.0.0/24
-p tcp -j DNAT --to-destination :8080
-p tcp -j REDIRECT --to-ports http
"""
_RAW = """
-j CT --notrack
-j NOTRACK
-j CT --ctevents new,destroy
-p tcp -j CT --helper ftp
-j DROP
"""


def _rules(text: str) -> list[str]:
    return [line.replace("OTHER", CHAIN).replace("NETS", SET) for line in text.strip().split("\n")]


USUAL = {
    (4, "filter"): _rules(_FILTER) + _ODD,
    (6, "filter"): _rules(_FILTER_6),
    (4, "mangle"): _rules(_MANGLE),
    (4, "nat"): _rules(_NAT),
    (4, "raw"): _rules(_RAW),
}
