"""The configuration of `equipoise serve`: what it says, and one line for each mistake."""

import dataclasses
import tomllib

import pytest

from equipoise.errors import ConfigError
from equipoise.live.config import Config, HealthPart, split_address
from equipoise.live.health import Rules
from equipoise.live.limits import Limits

GOOD = """
listen = "127.0.0.1:8080"
[[servers]]
address = "10.0.0.1:8000"
[[servers]]
name = "big"
address = "[2001:db8::1]:8000"
speed = 2
limit = 50
[[policies]]
name = "jsq-d"
d = 2
[health]
check = "http"
path = "/health"
interval = 0.5
[limits]
body = 1000
queue_timeout = 2.0
[admin]
listen = "localhost:9090"
"""


def config(text, **more):
    return Config.from_dict(tomllib.loads(text), **more)


def mistakes(text):
    with pytest.raises(ConfigError) as caught:
        config(text, source="d.toml")
    lines = str(caught.value).splitlines()
    assert all(line.startswith("d.toml: ") for line in lines)
    return [line.removeprefix("d.toml: ") for line in lines]


def changed(old, new):
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def test_a_good_file_says_what_runs():
    found = config(GOOD)

    assert found.spec.label == "jsq-d(d=2)"
    assert [(b.name, b.host, b.port, b.speed, b.limit) for b in found.backends()] == [
        ("10.0.0.1:8000", "10.0.0.1", 8000, 1.0, None),
        ("big", "2001:db8::1", 8000, 2.0, 50),
    ]
    assert found.backends()[1].address == "[2001:db8::1]:8000"
    assert found.health.rules() == Rules(check="http", path="/health", interval=0.5)
    assert found.proxy_limits() == Limits(body=1000, queue_timeout=2.0)
    assert found.summary() == "would listen on 127.0.0.1:8080, 2 servers, jsq-d(d=2)"


def test_what_is_left_out_is_as_health_and_proxy_have_it():
    found = config(GOOD.partition("[health]")[0])

    assert found.health.rules() == Rules()
    assert found.proxy_limits() == Limits()
    assert set(HealthPart.model_fields) == {field.name for field in dataclasses.fields(Rules)}


def test_the_policy_is_written_as_in_a_scenario():
    table = '[[policies]]\nname = "learning-threshold"\nalpha = 0.4\nstep = 2\n'
    text = GOOD.partition("[[policies]]")[0] + table

    assert config(text).spec.label == "learning-threshold(alpha=0.4, step=2)"


def test_a_clock_counts_in_mean_service_times():
    text = changed('name = "jsq-d"\nd = 2', 'name = "sujsq-det"\ndelta = 4')

    assert mistakes(text) == [
        "mean_service: missing; sujsq-det(delta=4) updates 4 times in a mean service time: how "
        "long is that, in seconds?"
    ]
    assert config("mean_service = 0.2\n" + text).period == pytest.approx(0.05)
    assert config(GOOD).period is None


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('listen = "127', 'lisen = "127', "lisen: unknown key; did you mean 'listen'?"),
        ("speed = 2", "sped = 2", "servers #2.sped: unknown key; did you mean 'speed'?"),
        ("speed = 2", "speed = 0", "servers #2.speed = 0: must be more than 0"),
        ("limit = 50", "limit = 1.5", "servers #2.limit = 1.5: must be a whole number"),
        (
            "10.0.0.1:8000",
            "http://10.0.0.1:8000",
            "is a URL; write it as HOST:PORT",
        ),
        ("10.0.0.1:8000", "10.0.0.1", "servers #1.address = '10.0.0.1': write it as HOST:PORT"),
        ("10.0.0.1:8000", "10.0.0.1:80000", "port 80000 is above 65535"),
        (
            "[2001:db8::1]:8000",
            "10.0.0.1:8000",
            "servers #2.address: 10.0.0.1:8000 is that of servers #1; list each server once",
        ),
        (
            'name = "big"',
            'name = "10.0.0.1:8000"',
            "servers #2.name: '10.0.0.1:8000' is that of servers #1",
        ),
        ('name = "big"', 'name = "a b"', "servers #2.name: 'a b': use letters"),
        ("\nd = 2", "\nd = 3", "policies #1: jsq-d(d=3): d = 3 is more than the 2 servers"),
        ("\nd = 2", "\nk = 2", "policies: jsq-d has no parameter 'k'"),
        ('"jsq-d"', '"jsqd"', "policies: no policy is called 'jsqd' (did you mean 'jsq-d'?)"),
        ('"jsq-d"', '"ll-d"', "policies #1: ll-d(d=2) must observe sizes"),
        ('"http"', '"htp"', "health.check = 'htp': must be 'none', 'tcp' or 'http'"),
        ('"/health"', '"health"', "health.path: 'health' must begin with /"),
        ('check = "http"\n', "", "health.path: '/health' is asked for only where check"),
        ("interval = 0.5", "interval = -1", "health.interval = -1: must be more than 0"),
        ("interval = 0.5", "floor = 2", "health.floor = 2: must be at most 1"),
        ("interval = 0.5", "back_off = 999", "health.back_off: is more than back_off_most"),
        ("body = 1000", "boddy = 1", "limits.boddy: unknown key; did you mean 'body'?"),
        ("body = 1000", "body = -1", "limits.body: -1: give a whole number from 0"),
        ("localhost:9090", "0.0.0.0:9090", "admin.listen: '0.0.0.0:9090' can be reached"),
        ("localhost:9090", "127.0.0.1:8080", "admin.listen: 127.0.0.1:8080 is where requests"),
        ("[limits]", "[log]\nfile = 'no/such/a.log'\n[limits]", "there is no folder no/such"),
        ("[limits]", "[limit]", "limit: unknown key; did you mean 'limits'?"),
    ],
    ids=lambda value: "",
)
def test_each_mistake_gets_its_line(old, new, line):
    found = mistakes(changed(old, new))

    assert any(line in one for one in found), found


def test_every_mistake_is_found_at_one_look():
    text = changed("speed = 2", "speed = 0").replace('"http"', '"htp"').replace("d = 2", "d = 0")

    assert len(mistakes(text)) == 3


def test_an_empty_file_is_told_what_it_needs():
    assert [line.partition(":")[0] for line in mistakes("seed = 1")] == [
        "listen",
        "servers",
        "policies",
    ]


def test_two_policies_are_one_too_many():
    text = changed("[health]", '[[policies]]\nname = "jsq"\n[health]')

    assert mistakes(text) == ["policies: lists 2 policies; serve runs one, leave one"]


def test_a_scenario_is_recognized():
    found = mistakes('[servers]\ncount = 2\n[arrivals]\nlaw = "poisson"\n')

    assert found == [
        "arrivals: belongs to a scenario; a dispatcher needs none, remove it",
        'servers: fill in addresses = ["10.0.0.1:8000", ..], or list each server as [[servers]]',
    ]


SHORT = """
listen = "127.0.0.1:8080"
[[policies]]
name = "jsq"
[servers]
addresses = ["10.0.0.1:8000", "10.0.0.2:8000"]
"""


def test_servers_can_be_listed_in_short():
    found = config(SHORT + "speeds = [1, 0.5]\n")

    assert [(one.address, one.speed) for one in found.servers] == [
        ("10.0.0.1:8000", 1.0),
        ("10.0.0.2:8000", 0.5),
    ]
    assert [one.speed for one in config(SHORT).servers] == [1.0, 1.0]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("speeds = [1]", "servers.speeds: 2 numbers, one for each address"),
        ("limit = 3", "servers.limit: unknown key; here stand addresses and speeds"),
    ],
)
def test_a_short_list_of_servers_that_is_wrong(more, said):
    assert mistakes(SHORT + more) == [said]


def test_an_admin_listener_for_all_must_be_said():
    assert config(changed('"localhost:9090"', '"0.0.0.0:9090"\npublic = true')).admin.public


def test_the_log_starts_from_the_folder_of_the_file(tmp_path):
    (tmp_path / "d.toml").write_text(GOOD + '[log]\nfile = "a.log"\n')

    assert Config.from_toml(tmp_path / "d.toml").log.file == str(tmp_path / "a.log")
    assert config(GOOD + '[log]\nfile = "-"\n').log.file == "-"


def test_a_file_that_is_not_there_or_not_toml(tmp_path):
    with pytest.raises(ConfigError, match=r"no\.toml: no such file"):
        Config.from_toml(tmp_path / "no.toml")
    (tmp_path / "d.toml").write_text("listen = \n")
    with pytest.raises(ConfigError, match=r"d\.toml: not TOML"):
        Config.from_toml(tmp_path / "d.toml")
    (tmp_path / "d.toml").write_text("")
    with pytest.raises(ConfigError, match=r"the file is empty$"):
        Config.from_toml(tmp_path / "d.toml")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("a.example:80", ("a.example", 80)),
        ("[::1]:8000", ("::1", 8000)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
    ],
)
def test_addresses(text, address):
    assert split_address(text) == address


AGENTS = changed('name = "jsq-d"\nd = 2', 'name = "jiq"') + "[agents]\n"


def test_with_agents_servers_are_asked_where_they_are_or_where_the_file_says():
    found = config(AGENTS.replace("speed = 2", 'speed = 2\nagent = "10.0.0.9:8001"'))

    assert found.agents.unheard == 3.0
    assert found.agents.secret() is None
    assert [backend.agent for backend in found.backends()] == [None, ("10.0.0.9", 8001)]
    assert config(GOOD).agents is None


def test_the_secret_is_the_word_in_a_file_beside_the_configuration(tmp_path):
    (tmp_path / "secret").write_text("swordfish\n")

    found = config(AGENTS + 'secret_file = "secret"', base=tmp_path)

    assert found.agents.secret() == "swordfish"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            AGENTS + "unheard = 1",
            "agents.unheard: 1 s: agents give a sign of life each 1 s; take 3",
        ),
        (AGENTS + "unheard = 0", "agents.unheard = 0: must be more than 0"),
        (AGENTS + "unherd = 4", "agents.unherd: unknown key; did you mean 'unheard'?"),
        (AGENTS + 'secret_file = "no/where"', "no/where: no such file or directory"),
        (AGENTS + 'secret_file = "."', "is a directory"),
        (GOOD + "[agents]", "agents: jsq-d(d=2) has servers tell nothing; remove the table"),
        (
            AGENTS.replace("speed = 2", 'agent = "http://10.0.0.9:8001"'),
            "servers #2.agent = 'http://10.0.0.9:8001': is a URL; write it as HOST:PORT",
        ),
        (AGENTS.replace("speed = 2", 'agent = "10.0.0.9:0"'), "port 0 is no server's"),
        (
            AGENTS.replace("[agents]", "").replace("speed = 2", 'agent = "10.0.0.9:8001"'),
            "servers #2.agent: there is no [agents] table; write one, it may be empty",
        ),
        (
            AGENTS.replace('0.1:8000"', '0.1:8000"\nagent = "h:1"').replace(
                "speed = 2", 'agent = "H:1"'
            ),
            "servers #2.agent: H:1 is that of servers #1",
        ),
    ],
)
def test_each_mistake_about_agents_is_a_line(text, line):
    (found,) = mistakes(text)

    assert line in found


@pytest.mark.parametrize("word", ["", "two words", "gr\u00fcn"])
def test_a_secret_is_one_word_of_ascii(tmp_path, word):
    (tmp_path / "secret").write_text(word)

    with pytest.raises(ConfigError, match=r"one word of ASCII|not ASCII"):
        config(AGENTS + 'secret_file = "secret"', base=tmp_path)
