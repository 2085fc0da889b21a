/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Headers that most files of the user-mode kernel include, for kernel-cc. The first three are those that Kbuild includes
 * in every file.
 */
#include <linux/compiler-version.h>
#include <linux/kconfig.h>
#include <linux/compiler_types.h>

#define KBUILD_MODNAME "lab" /* in functions of headers; the file that is compiled has its own name after them */

#include <linux/module.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/proc_fs.h>
#include <linux/skbuff.h>
#include <linux/netdevice.h>
#include <net/sock.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#ifdef MODULE
#include <net/addrconf.h>
#include <net/route.h>
#include <net/ip6_route.h>
#include <linux/netfilter.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/x_tables.h>
#include <net/netfilter/nf_tables.h>
#include <net/netfilter/nf_conntrack.h>
#include <net/netfilter/nf_conntrack_core.h>
#include <net/netfilter/nf_nat.h>
#else
#include <linux/blkdev.h>
#include <linux/bpf.h>
#endif

#undef KBUILD_MODNAME
