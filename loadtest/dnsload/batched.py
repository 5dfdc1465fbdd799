"""The engine for high rates: one loop on nonblocking UDP sockets, many datagrams a system call."""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Sequence
from functools import partial

from dnsload.exchange import Exchange
from dnsload.mmsg import BATCH, Batches, stamp_arrivals
from dnsload.schedule import SECOND, Pacing
from dnsload.session import Session, clock, over, sending_over
from dnsload.targets import Target, receive_drops, udp_socket

_SHORTEST_SLEEP = 0.0001
"""Seconds; what is due meanwhile goes out together."""
_LONGEST_SLEEP = 0.005
_SENDS_A_TURN = 4
_RECEIVES_A_TURN = 16
"""Batches of each socket: more than were sent, so that answers don't pile up."""


class _Channel:
    """A connected socket and its queries."""

    def __init__(self, session: Session, target: Target) -> None:
        self.exchange: Exchange = session.exchange(target)
        self.socket: socket.socket = udp_socket(target)
        stamp_arrivals(self.socket)
        self._drops = 0

    def new_drops(self) -> int:
        """Return how many packets the kernel has dropped since the last call."""
        before, self._drops = self._drops, receive_drops(self.socket)
        return (self._drops - before) & 0xFFFFFFFF


class BatchedEngine:
    """Sends and receives until all is over, or until it is told to stop."""

    def __init__(self, session: Session, targets: Sequence[Target], stop: threading.Event) -> None:
        self._session = session
        self._recording = session.recording
        self._stop = stop
        self._batches = Batches()
        self._turn = 0
        self._closing = contextlib.ExitStack()
        self._channels: list[_Channel] = []
        with contextlib.ExitStack() as opened:
            for target in targets:
                channel = _Channel(session, target)
                opened.callback(channel.socket.close)
                self._channels.append(channel)
            self._closing = opened.pop_all()
        self.exchanges = [channel.exchange for channel in self._channels]

    def run(self) -> None:
        """Do it; this takes as long as the run."""
        with self._closing, select.epoll() as poll:
            for channel in self._channels:
                poll.register(channel.socket, select.EPOLLIN)
            start = clock()
            self._recording.begin(start)
            pacing = self._session.pacing(start)
            while not self._stop.is_set() and not over(pacing, self.exchanges, now := clock()):
                self._receive()
                more = self._send(pacing)
                self._housekeep(now)
                if not more:
                    self._wait(pacing, poll)
            now = clock()
            self._recording.tally.unsent += pacing.unsent(min(now, pacing.ends))
            self._count_drops()
            self._recording.end(now)

    def _send(self, pacing: Pacing) -> bool:
        """Send what is due, up to some batches; returns whether there may be more."""
        for _ in range(_SENDS_A_TURN):
            now = clock()
            if sending_over(pacing, now):
                return False
            channel = self._channels[self._turn % len(self._channels)]
            outstanding = sum(exchange.outstanding for exchange in self.exchanges)
            limit = min(BATCH, channel.exchange.room)
            intended = pacing.due(now, outstanding, limit)
            if intended or not limit:
                self._turn += 1  # only then: all sockets have their turn, at any rate
                self._send_batch(channel, intended)
            if len(intended) < limit:
                return False
        return True

    def _send_batch(self, channel: _Channel, intended: Sequence[int]) -> None:
        exchange, pool = channel.exchange, self._session.workload.pool
        places = self._session.workload.choose(len(intended))
        self._batches.fill([pool[place].packet for place in places], exchange.next_id)
        exchange.open(places, intended, clock(), self._recording.tally)
        sent = 0
        while sent < len(places) and not self._stop.is_set():
            try:
                sent += self._batches.send(channel.socket, sent, len(places) - sent)
            except BlockingIOError:  # the send queue is full; while it drains there are answers to read
                self._receive()
            except ConnectionRefusedError:  # what an earlier query met: now that it is told, this one can go
                self._recording.tally.refused += 1
            except OSError:  # no route, or a firewall: this one is lost
                self._recording.tally.refused += 1
                sent += 1

    def _receive(self) -> None:
        tally = self._recording.tally
        for channel in self._channels:
            take = partial(channel.exchange.close, tally)
            for _ in range(_RECEIVES_A_TURN):
                try:
                    if self._batches.receive(channel.socket, take) < BATCH:
                        break
                except BlockingIOError:
                    break
                except ConnectionError:
                    tally.refused += 1

    def _housekeep(self, now: int) -> None:
        for exchange in self.exchanges:
            exchange.expire(now, self._recording.tally)
        if now >= self._recording.next_turn:
            self._count_drops()
            self._recording.turn(now)
        else:
            self._recording.tally.flush_some()

    def _count_drops(self) -> None:
        self._recording.tally.client_drops += sum(channel.new_drops() for channel in self._channels)

    def _wait(self, pacing: Pacing, poll: select.epoll) -> None:
        """Sleep until the next query is due; only a closed loop wakes for answers, for the kernel notes their time."""
        due = pacing.next_due()
        if due is None:
            poll.poll(_LONGEST_SLEEP, 1)
            return
        seconds = min((due - clock()) / SECOND, _LONGEST_SLEEP)
        time.sleep(max(seconds, _SHORTEST_SLEEP))
