"""Messages that take time: what is on its way between the servers and the dispatcher.

Tasks travel at once; what a server tells the dispatcher, and what the dispatcher announces, each
take a time of their own, drawn from the scenario's law. Messages may overtake each other and cross
tasks. A server's message m is posted as m - (tasks it had received when it spoke); the dispatcher
hears that plus all it has sent by then, which is a bound that still holds. What is due at one
instant arrives in the order in which it was posted, before anything else happens then; what takes
no time is heard at once, so that with delays of 0 the path is that of a run without mail.

An announcement goes to every server by itself. The server answers with its state; one that has
nothing to promise acknowledges, which is silence and is not counted, but travels too. Until all n
have come back the dispatcher does not learn: it would judge the new value by what servers said
under the old one, and run away.

Of several dispatchers that hear all (dispatchers.py) each has letters of its own, which travel
alike: a server writes one to each, and each announces and awaits its own answers. A letter names
the pair of dispatcher k and server s as k n + s.

Letters in flight stand in a binary heap by time and number; both its room and the block of delays
drawn outside (a stream of their own, so that tasks stay the same) are refilled by the driver.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ..compile import outline
from ..policies.base import Policy
from ..policies.dispatchers import one
from ..policies.steps import ANSWER, JOIN, LEAVE, UPDATE, make_steps
from .store import longer

U = np.uintp
IN_FLIGHT, POSTED, DRAWN = range(3)
TOLD, ANSWERED, ACKNOWLEDGED, ANNOUNCED = range(4)  # kinds of letters
BLOCK = 16_384  # delays drawn at a time


class Mail(NamedTuple):
    """Letters in flight, and what every server knows of the announcements."""

    due: np.ndarray  # float64[room], s, a heap by (due, number)
    number: np.ndarray  # int64[room], how many were posted before each
    letter: np.ndarray  # int32[room], which one; behind those in flight stand the free ones
    server: np.ndarray  # int32[room], by letter: from or to whom, k n + s
    kind: np.ndarray  # int8[room]
    promise: np.ndarray  # int64[room], m less the tasks received when it was said
    known: np.ndarray  # int64[m n], the announcement of each dispatcher that each server knows
    awaited: np.ndarray  # int64[m], answers that each dispatcher awaits
    delay: np.ndarray  # float64[k], delays drawn, s
    counts: np.ndarray  # int64[3]: in flight; posted so far; delays used


class MailSteps(NamedTuple):
    """The steps of steps.py where messages take time; `at` is the time, s."""

    arrive: Any  # (world, mail, at) -> server, as `Steps.arrive`
    depart: Any  # (world, mail, server, at)
    update: Any  # (world, mail, server, at): a server tells its state by the clock
    deliver: Any  # (world, mail, at): the first letter arrives


def make_mail(servers: int, announcement: int, room: int, dispatchers: int = 1) -> Mail:
    """Return the mail of so many servers that know this announcement; no delays are drawn yet."""
    return Mail(
        np.zeros(room),
        np.zeros(room, np.int64),
        np.arange(room, dtype=np.int32),
        np.zeros(room, np.int32),
        np.zeros(room, np.int8),
        np.zeros(room, np.int64),
        np.full(dispatchers * servers, announcement, np.int64),
        np.zeros(dispatchers, np.int64),
        np.zeros(0),
        np.zeros(3, np.int64),
    )


def more_mail(mail: Mail) -> Mail:
    """Return the same mail with twice the room."""
    old = mail.due.size
    letter = longer(mail.letter, 2 * old, 0)
    letter[old:] = np.arange(old, 2 * old)
    return mail._replace(
        letter=letter,
        due=longer(mail.due, 2 * old, 0.0),
        number=longer(mail.number, 2 * old, 0),
        server=longer(mail.server, 2 * old, 0),
        kind=longer(mail.kind, 2 * old, 0),
        promise=longer(mail.promise, 2 * old, 0),
    )


def more_delays(mail: Mail, drawn: np.ndarray) -> Mail:
    """Return the same mail with more delays, float64[k] s, behind those not used yet."""
    left = mail.delay[mail.counts[DRAWN] :]
    mail.counts[DRAWN] = 0
    return mail._replace(delay=np.concatenate((left, drawn)))


def post(mail, time, server, kind, promise):
    """Send a letter that arrives at `time`; there must be room."""
    due, number, letter, counts = mail.due, mail.number, mail.letter, mail.counts
    hole = counts[IN_FLIGHT]
    mine = letter[U(hole)]
    mail.server[U(mine)], mail.kind[U(mine)], mail.promise[U(mine)] = server, kind, promise
    while hole > 0:
        parent = (hole - 1) >> 1
        if due[U(parent)] <= time:  # of two at one time the one posted first
            break
        due[U(hole)] = due[U(parent)]
        number[U(hole)] = number[U(parent)]
        letter[U(hole)] = letter[U(parent)]
        hole = parent
    due[U(hole)], number[U(hole)], letter[U(hole)] = time, counts[POSTED], mine
    counts[IN_FLIGHT] += 1
    counts[POSTED] += 1


def take_first(mail):
    """Take the letter that arrives next out of the heap; return it. It may be overwritten by the
    next one posted.
    """
    due, number, letter, counts = mail.due, mail.number, mail.letter, mail.counts
    first = letter[0]
    last = counts[IN_FLIGHT] - 1
    counts[IN_FLIGHT] = last
    time, its_number, mine = due[U(last)], number[U(last)], letter[U(last)]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= last:
            break
        if child + 1 < last and _before(mail, child + 1, due[U(child)], number[U(child)]):
            child += 1
        if not _before(mail, child, time, its_number):
            break
        due[U(hole)] = due[U(child)]
        number[U(hole)] = number[U(child)]
        letter[U(hole)] = letter[U(child)]
        hole = child
    due[U(hole)], number[U(hole)], letter[U(hole)] = time, its_number, mine
    letter[U(last)] = first
    return first


def _before(mail, place, time, number):
    """Whether the letter at a place of the heap arrives before another."""
    own = mail.due[U(place)]
    return own < time or (own == time and mail.number[U(place)] < number)


def next_delay(mail):
    """Return the next delay drawn, s."""
    drawn = mail.counts[DRAWN]
    mail.counts[DRAWN] = drawn + 1
    return mail.delay[U(drawn)]


@cache
def make_mail_steps(policy: Policy, several: bool = False) -> MailSteps:
    """Return the steps that drive `policy` where messages take time.

    `several`: `world` is that of `Dispatchers`, and `whose` says who gets a task.
    """
    steps = make_steps(policy, True)
    send, hear_from, learn = steps.send, steps.hear_from, steps.learn
    say_start, say_finish, say_state = steps.say_start, steps.say_finish, steps.say_state
    learns, announces = policy.learns, policy.announces

    # Here `world` is that of one dispatcher, number k; `pair` is k n + server.

    def known(world, mail, pair):
        """What this server knows to be in force; of what is not announced it needs nothing."""
        if announces:
            return mail.known[U(pair)]
        return world.announcement[0]

    def receive(world, mail, pair, server, kind, promise):
        if kind != ACKNOWLEDGED:
            hear_from(world, server, promise, 0)
        if kind != TOLD:
            mail.awaited[U(pair // world.length.size)] -= 1

    def speak(world, mail, pair, server, kind, m, at):
        promise = m - world.sent[U(server)]  # tasks travel at once: it has received all of them
        delay = next_delay(mail)
        if delay > 0.0:
            post(mail, at + delay, pair, kind, promise)
        else:
            receive(world, mail, pair, server, kind, promise)

    def answer(world, mail, pair, server, at):
        """A server learns of the announcement in force and tells its state."""
        mail.known[U(pair)] = world.announcement[0]
        m = say_state(world, server, world.announcement[0])
        if m > 0:
            world.count[ANSWER] += 1
        speak(world, mail, pair, server, ANSWERED if m > 0 else ACKNOWLEDGED, m, at)

    @outline
    def announce(world, mail, k, at):
        n = world.length.size
        mail.awaited[k] = n
        for server in range(n):
            delay = next_delay(mail)
            if delay > 0.0:
                post(mail, at + delay, k * n + server, ANNOUNCED, 0)
            else:
                answer(world, mail, k * n + server, server, at)

    def told_start(world, mail, k, server, at):
        pair = k * world.length.size + server
        m = say_start(world, server, known(world, mail, pair))
        if m > 0:
            world.count[JOIN] += 1
            speak(world, mail, pair, server, TOLD, m, at)

    def told_finish(world, mail, k, server, at):
        pair = k * world.length.size + server
        m = say_finish(world, server, known(world, mail, pair))
        if m > 0:
            world.count[LEAVE] += 1
            speak(world, mail, pair, server, TOLD, m, at)

    def updated(world, mail, k, server, at):
        pair = k * world.length.size + server
        m = say_state(world, server, known(world, mail, pair))
        if m > 0:
            world.count[UPDATE] += 1
            speak(world, mail, pair, server, TOLD, m, at)

    def learned(world, mail, k, at):
        if learns and mail.awaited[U(k)] == 0:
            before = world.announcement[0]
            if learn(world) != before and announces:
                announce(world, mail, k, at)

    # From here on it may be that of several.
    if several:

        def count(world):
            return world.at.size

        def turn(world):
            return world.whose[0]

        def dispatcher(world, k):
            return one(world, k)

        def apart(world, pair):
            return divmod(pair, world.length.size)

    else:

        def count(world):
            return 1

        def turn(world):
            return 0

        def dispatcher(world, k):
            return world

        def apart(world, pair):
            return 0, pair

    def arrive(world, mail, at):
        k = turn(world)
        mine = dispatcher(world, k)
        server = send(mine)
        if server < 0:
            return server
        for j in range(count(world)):
            told_start(dispatcher(world, j), mail, j, server, at)
        learned(mine, mail, k, at)
        return server

    def depart(world, mail, server, at):
        world.length[server] -= 1
        for j in range(count(world)):
            told_finish(dispatcher(world, j), mail, j, server, at)

    def update(world, mail, server, at):
        for j in range(count(world)):
            updated(dispatcher(world, j), mail, j, server, at)

    def deliver(world, mail, at):
        letter = take_first(mail)
        pair, kind = np.int64(mail.server[U(letter)]), np.int64(mail.kind[U(letter)])
        k, server = apart(world, pair)
        mine = dispatcher(world, k)
        if kind == ANNOUNCED:
            answer(mine, mail, pair, server, at)
        else:
            receive(mine, mail, pair, server, kind, mail.promise[U(letter)])

    return MailSteps(arrive, depart, update, deliver)
