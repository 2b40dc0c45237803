"""Access logs written from tasks that are known, in the manner of three balancers."""

import json
import time

SECRETS = ("10.9.8.7", "203.0.113", "/private/of", "Mozilla", "alice", "berta")


def stamp(seconds, form):
    return time.strftime(form, time.gmtime(seconds))


def haproxy(i, begun, waited, took, server):
    """Accept date to 1 ms; Tw, and Tc + Tr, in ms."""
    ms = round(begun * 1000)
    wait, took = round(waited * 1000), round(took * 1000)
    return (
        f"203.0.113.{i % 250}:{40_000 + i % 20_000} [{stamp(ms // 1000, '%d/%b/%Y:%H:%M:%S')}."
        f"{ms % 1000:03d}] web back/berta-{server.split()[1]} 0/{wait}/0/{took}/{wait + took} "
        f'200 512 - - ---- 1/1/1/1/0 0/0 "GET /private/of/alice?{i} HTTP/1.1"'
    )


def ingress(i, begun, waited, took, server):
    """The end to 1 s; request and upstream times to 1 ms."""
    end = int(begun + waited + took)
    return (
        f"203.0.113.{i % 250} - alice [{stamp(end, '%d/%b/%Y:%H:%M:%S')} +0000] "
        f'"GET /private/of/alice HTTP/1.1" 200 512 "-" "Mozilla/5.0 (X11)" 89 '
        f"{waited + took:.3f} [web-80] [] 10.9.8.7:{server.split()[1]} 512 {took:.3f} 200 {i:08x}"
    )


def traefik(i, begun, waited, took, server):
    """The arrival and both durations in ns."""
    ns = round((begun % 1) * 1e6) * 1000
    return json.dumps(
        {
            "ClientHost": f"203.0.113.{i % 250}",
            "RequestPath": "/private/of/alice",
            "StartUTC": f"{stamp(int(begun), '%Y-%m-%dT%H:%M:%S')}.{min(ns, 999_999_999):09d}Z",
            "Duration": round((waited + took) * 1e9),
            "OriginDuration": round(took * 1e9),
            "ServiceAddr": f"10.9.8.7:{server.split()[1]}",
            "RouterName": "web@docker",
            "DownstreamStatus": 200,
            "DownstreamContentSize": 512,
            "request_User-Agent": "Mozilla/5.0 (X11)",
        }
    )


WRITERS = {"haproxy": haproxy, "nginx-ingress": ingress, "traefik": traefik}


def write_log(path, form, begun, took, server, waited=None):
    """Write tasks in order of their end: begun in s since 1970, took and waited in s, servers by
    number."""
    ends = begun + took if waited is None else begun + waited + took
    write = WRITERS[form]
    lines = [
        write(
            i, begun[i], 0.0 if waited is None else waited[i], took[i], f"back {8000 + server[i]}"
        )
        for i in ends.argsort(kind="stable")
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
