"""Faults of processes: workers, coordinators and beats are killed, frozen, and stopped."""

from __future__ import annotations

import signal
import time
from subprocess import TimeoutExpired

from tests.acceptance.chaos.faults import Fault
from tests.acceptance.chaos.fleet import STOP_S, Life

KILL_EVERY_S = (2.0, 4.0)


class WorkerKilled(Fault):
    kind = "worker_killed"

    def inject(self) -> None:
        member = self.rig.victim(self.rig.fleet.workers, self.dice)
        if member is None:
            return self.say("nobody left to kill")
        life = self.rig.fleet.signal(member, signal.SIGKILL, self.kind)
        self.injected.workers = [life.worker]
        self.say(f"{member.name} (pid {life.process.pid})")
        life.process.wait()
        return self.rig.release(member)


class WorkerToldToStop(Fault):
    kind = "worker_stopped"

    def inject(self) -> None:
        member = self.rig.victim(self.rig.fleet.workers, self.dice)
        if member is None:
            return self.say("nobody left to stop")
        began, was_ready = time.time(), member.was_ready
        life = self.rig.fleet.signal(member, signal.SIGTERM, self.kind)
        self.injected.workers = [life.worker]
        self.say(f"{member.name} (pid {life.process.pid})")
        problem = self._problem(life, began, was_ready)
        if problem:
            self.rig.problems.append(
                f"{member.name} after SIGTERM (#{self.injected.number}): {problem}\n{member.said()}"
            )
        return self.rig.release(member)

    def _problem(self, life: Life, began: float, was_ready: bool) -> str:
        try:
            code = life.process.wait(STOP_S)
        except TimeoutExpired:
            life.process.kill()
            return f"did not end within {STOP_S:.0f} s"
        # what cannot be stored then makes it a 1
        away = self.rig.disorder.since(began - 5, "redis", "postgres")
        starting = code == -signal.SIGTERM and not was_ready
        return "" if code == 0 or starting or (code == 1 and away) else f"ended with code {code}"


class WorkerFrozen(Fault):
    """Longer than its lease, so that it wakes as a zombie."""

    kind = "worker_frozen"

    def inject(self) -> None:
        member = self.rig.victim(self.rig.fleet.workers, self.dice)
        if member is None:
            return self.say("nobody left to freeze")
        seconds = self.rig.times.lease_s * 1.25 + self.dice.uniform(1, 4)
        life = self.rig.fleet.signal(member, signal.SIGSTOP, self.kind)
        self.injected.workers = [life.worker]
        self.say(f"{member.name} (pid {life.process.pid}) for {seconds:.1f} s")
        self.rig.wait(seconds)
        self.rig.woken.append(time.time())
        self.rig.fleet.signal(member, signal.SIGCONT, self.kind)
        return self.rig.release(member)


class CoordinatorKilled(Fault):
    """The worker process alone: its beat has to notice by itself."""

    kind = "coordinator_killed"

    def inject(self) -> None:
        member = self.rig.victim(self.rig.fleet.coordinators, self.dice)
        if member is None:
            return self.say("nobody left to kill")
        life = self.rig.fleet.signal(member, signal.SIGKILL, self.kind)
        self.say(f"{member.name} (pid {life.process.pid})")
        life.process.wait()
        return self.rig.release(member)


class CoordinatorsKilledInTurn(Fault):
    kind = "coordinators_in_turn"

    def inject(self) -> None:
        turns = self.dice.randint(4, 6)
        self.say(f"one SIGKILL each few seconds, {turns} of them")
        for _ in range(turns):
            if self.rig.over.is_set():
                return
            member = self.rig.victim(self.rig.fleet.coordinators, self.dice)
            if member is not None:
                self.rig.fleet.signal(member, signal.SIGKILL, self.kind).process.wait()
                self.rig.release(member)
            self.rig.wait(self.dice.uniform(*KILL_EVERY_S))


class CoordinatorFrozen(Fault):
    """Perhaps while it holds the lock under which leases are made."""

    kind = "coordinator_frozen"

    def inject(self) -> None:
        member = self.rig.victim(self.rig.fleet.coordinators, self.dice)
        if member is None:
            return self.say("nobody left to freeze")
        seconds = self.dice.uniform(5, 15)
        self.say(f"{member.name} (pid {member.life.process.pid}) for {seconds:.1f} s")
        self.rig.fleet.signal(member, signal.SIGSTOP, self.kind)
        self.rig.wait(seconds)
        self.rig.fleet.signal(member, signal.SIGCONT, self.kind)
        return self.rig.release(member)


class BeatKilled(Fault):
    kind = "beat_killed"

    def inject(self) -> None:
        member = self.rig.victim(self.rig.fleet.coordinators, self.dice)
        beat = None if member is None else self.rig.fleet.beat_of(member)
        if member is None or beat is None:
            if member is not None:
                self.rig.release(member)
            return self.say("no beat to kill")
        beat.kill()
        self.say(f"of {member.name} (pid {beat.pid})")
        return self.rig.release(member)
