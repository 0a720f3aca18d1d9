"""After a fork the child's producer is a new one; the parent's goes on as if nothing had been.

Each test runs in a Python of its own, so that a crash or a hang shows what it was.
"""

from __future__ import annotations

from collections import Counter

from conftest import TopicFactory
from kafka_cluster import KafkaCluster
from mock_cluster import MockCluster
from support.peer.scripted_peer import Peer
from support.processes.fork_scripts import run, values


def expected(**counts: int) -> list[bytes]:
    """The values of `send(producer, name, count)`, sorted."""
    return sorted(b"%s-%d" % (name.encode(), i) for name, n in counts.items() for i in range(n))


def test_parent_and_child_send_on_the_same_object_and_every_record_arrives_once(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    """1000 before the fork, 1000 in the child, 1000 in the parent: 3000."""
    name = topic(kafka, 3)
    told = run(
        kafka,
        name,
        """
        producer = new_producer()
        before = send(producer, b"before", 1000)
        bulk = producer.send_many(topic, [b"bulk-%d" % i for i in range(1000)])
        at_fork = forking.inodes()

        def child():
            inherited = forking.sockets()
            refused = 0
            for future in (before[0], before[-1], bulk):
                for ask in (future.done, lambda: future.result(1), lambda: future.exception(1)):
                    try:
                        ask()
                    except ForkedFutureError:
                        refused += 1
            futures = send(producer, b"child", 1000)
            producer.flush(20)
            offsets = [future.result(1).offset for future in futures]
            own = forking.inodes(), producer_id(producer)
            began_s = time.monotonic()
            producer.close(10)
            return inherited, refused, len(offsets), own, time.monotonic() - began_s

        forked = forking.Child(child)
        after = send(producer, b"parent", 1000)
        producer.flush(20)
        inherited, refused, delivered, (own, child_id), close_s = forked.result()
        acked = [f.result(1) for f in before + after] + [bulk.result(1)]
        print(json.dumps({
            "inherited": inherited, "refused": refused, "delivered": delivered,
            "shared": sorted({*own} & {*at_fork, *forking.inodes()}),
            "ids": [child_id, producer_id(producer)], "close_s": close_s, "acked": len(acked),
        }))
        producer.close()
        """,
    )
    print(f"close() in the child took {told['close_s'] * 1000:.1f} ms")
    assert told["inherited"] == []
    assert told["shared"] == []
    assert told["refused"] == 9
    assert (told["delivered"], told["acked"]) == (1000, 2001)
    assert len(set(told["ids"])) == 2
    assert sorted(values(kafka, name)) == expected(before=1000, bulk=1000, child=1000, parent=1000)


def test_a_child_that_never_uses_the_producer_exits_at_once(mock_cluster: MockCluster) -> None:
    told = run(
        mock_cluster,
        "t",
        """
        producer = new_producer()
        send(producer, b"parent", 10)
        took = {}
        for name, ends in (("exit", sys.exit), ("_exit", os._exit)):
            began_s = time.monotonic()
            assert forking.Child(forking.sockets, ends).result() == []
            took[name] = time.monotonic() - began_s
        producer.close()
        print(json.dumps(took))
        """,
    )
    print({name: f"{seconds * 1000:.1f} ms" for name, seconds in told.items()})
    assert sorted(values(mock_cluster, "t")) == expected(parent=10)


def test_what_was_buffered_at_the_fork_is_the_parents_alone(mock_cluster: MockCluster) -> None:
    run(
        mock_cluster,
        "t",
        """
        producer = new_producer(linger_ms=60_000)
        producer.partitions_for(topic)
        futures = send(producer, b"parent", 100)
        assert incomplete_for_test(producer._engine)[1] == 100

        def child():
            assert producer._engine.flush(0) is None
            producer.flush(5)
            mine = send(producer, b"child", 5)
            producer.flush(20)
            producer.close(10)
            return len([f.result(1) for f in mine])

        assert forking.Child(child, sys.exit).result() == 5
        assert not any(f.done() for f in futures)
        producer.close()
        assert all(f.result(1) for f in futures)
        print("{}")
        """,
    )
    assert sorted(values(mock_cluster, "t")) == expected(parent=100, child=5)


def test_forks_while_other_threads_send(mock_cluster: MockCluster) -> None:
    told = run(
        mock_cluster,
        "t",
        """
        producer = new_producer()
        stop = threading.Event()
        futures = []

        def sender(name):
            sent = 0
            while not stop.is_set():
                futures.append(producer.send(topic, b"%s-%d" % (name, sent)))
                sent += 1
                if sent % 5 == 0:
                    futures[-1].result(20)
            counts[name.decode()] = sent

        def bulk_sender():
            sent = 0
            while not stop.is_set():
                futures.append(
                    producer.send_many(topic, [b"bulk-%d" % i for i in range(sent, sent + 20)]))
                sent += 20
                futures[-1].result(20)
            counts["bulk"] = sent

        counts = {}
        threads = [threading.Thread(target=sender, args=(name,)) for name in (b"a", b"b")]
        threads.append(threading.Thread(target=bulk_sender))
        for thread in threads:
            thread.start()

        def child(name):
            mine = send(producer, name, 50)
            producer.flush(20)
            producer.close(10)
            return len([f.result(1) for f in mine])

        for number in range(15):
            name = b"child%d" % number
            assert forking.Child(lambda: child(name)).result() == 50
            counts[name.decode()] = 50
        stop.set()
        for thread in threads:
            thread.join()
        producer.flush(20)
        for future in futures:
            future.result(1)
        producer.close()
        print(json.dumps(counts))
        """,
    )
    assert sorted(values(mock_cluster, "t")) == expected(**told)


def test_forks_while_callbacks_run(mock_cluster: MockCluster) -> None:
    told = run(
        mock_cluster,
        "t",
        """
        producer = new_producer()
        called = []

        def sent(metadata, error):
            called.append((os.getpid(), error))

        def child():
            here = len(called)
            for i in range(50):
                producer.send(topic, b"child-%d" % i, on_delivery=sent)
            producer.flush(20)
            mine = called[here:]
            producer.close(10)
            return len([1 for pid, error in mine if pid == os.getpid() and error is None])

        for number in range(10):
            for i in range(200):
                producer.send(topic, b"parent-%d" % (number * 200 + i), on_delivery=sent)
            assert forking.Child(child).result() == 50
        producer.flush(20)
        producer.close()
        print(json.dumps({"called": len(called), "pids": len({pid for pid, _ in called})}))
        """,
    )
    assert told == {"called": 2000, "pids": 1}
    counted = Counter(values(mock_cluster, "t"))
    assert counted == Counter(expected(parent=2000) + 10 * expected(child=50))


def test_a_fork_inside_a_callback(mock_cluster: MockCluster) -> None:
    """The child is the delivery thread alone: it can send, and leaves the parent's callbacks be."""
    told = run(
        mock_cluster,
        "t",
        """
        producer = new_producer(linger_ms=100)
        producer.partitions_for(topic)
        read_fd, write_fd = os.pipe()
        pids = []

        def first(metadata, error):
            pid = os.fork()
            if pid == 0:
                mine = send(producer, b"child", 20)
                producer.flush(20)
                os.write(write_fd, b"d%d " % len([f.result(1) for f in mine]))
                producer.close(10)  # else its threads would outlive this last one
            else:
                pids.append(pid)

        def other(metadata, error):
            os.write(write_fd, b"p " if os.getpid() == parent else b"c ")

        parent = os.getpid()
        future = producer.send(topic, b"parent-0", on_delivery=first, partition=0)
        future.add_done_callback(lambda f: other(None, None))
        for i in range(1, 5):
            producer.send(topic, b"parent-%d" % i, on_delivery=other, partition=0)
        producer.flush(20)
        code = forking.wait_for(pids[0])
        producer.close()
        os.close(write_fd)
        written = os.read(read_fd, 1000).decode().split()
        print(json.dumps({"code": code, "written": sorted(written)}))
        """,
    )
    assert told == {"code": 0, "written": ["d20", "p", "p", "p", "p", "p"]}
    assert sorted(values(mock_cluster, "t")) == expected(parent=5, child=20)


def test_a_child_of_multiprocessing_sends(mock_cluster: MockCluster) -> None:
    run(
        mock_cluster,
        "t",
        """
        import multiprocessing

        def work(name, count):
            futures = send(producer, name, count)
            producer.flush(20)
            return len([f.result(1) for f in futures])

        producer = new_producer()
        send(producer, b"parent", 100)
        fork = multiprocessing.get_context("fork")
        process = fork.Process(target=work, args=(b"process", 100))
        process.start()
        process.join(30)
        assert process.exitcode == 0, process.exitcode
        with fork.Pool(2) as pool:
            assert pool.starmap(work, [(b"pool%d" % i, 50) for i in range(4)]) == [50] * 4
        producer.close()
        print("{}")
        """,
    )
    wanted = expected(parent=100, process=100, pool0=50, pool1=50, pool2=50, pool3=50)
    assert sorted(values(mock_cluster, "t")) == wanted


def test_a_child_of_multiprocessing_that_just_ends_sends_what_is_left(
    mock_cluster: MockCluster,
) -> None:
    """It passes over `atexit`, where the producers of other processes are closed."""
    run(
        mock_cluster,
        "t",
        """
        import multiprocessing

        def inherited(code):
            send(producer, b"inherited%d" % code, 100)
            sys.exit(code)

        def own():
            send(new_producer(linger_ms=1000), b"own", 50)  # and nobody keeps it
            kept = new_producer(linger_ms=1000)
            send(kept, b"kept", 50)
            inner = fork.Process(target=inherited, args=(2,))
            inner.start()
            inner.join(30)
            assert inner.exitcode == 2, inner.exitcode

        producer = new_producer(linger_ms=1000)
        send(producer, b"parent", 100)
        fork = multiprocessing.get_context("fork")
        processes = [
            fork.Process(target=inherited, args=(0,)),
            fork.Process(target=inherited, args=(1,)),
            fork.Process(target=own),
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join(30)
        assert [process.exitcode for process in processes] == [0, 1, 0]
        producer.close()
        print("{}")
        """,
    )
    wanted = expected(parent=100, inherited0=100, inherited1=100, inherited2=100, kept=50, own=50)
    assert sorted(values(mock_cluster, "t")) == wanted


def test_threads_that_outlast_the_function_of_a_child_of_multiprocessing_send(
    mock_cluster: MockCluster,
) -> None:
    """Python waits for them after the child's finalizers, and ends without another."""
    run(
        mock_cluster,
        "t",
        """
        import multiprocessing
        from concurrent.futures import ThreadPoolExecutor

        def after_the_function(name):
            while not multiprocessing.util.is_exiting():
                time.sleep(0.001)
            time.sleep(0.05)
            send(producer, name, 50)
            kept.append(new_producer(linger_ms=1000))
            send(kept[-1], b"kept_" + name, 50)

        def in_a_thread():
            threading.Thread(target=after_the_function, args=(b"thread",)).start()

        def in_a_pool():
            ThreadPoolExecutor(1).submit(after_the_function, b"pool")

        kept = []
        producer = new_producer(linger_ms=1000)
        send(producer, b"parent", 100)
        fork = multiprocessing.get_context("fork")
        processes = [fork.Process(target=target) for target in (in_a_thread, in_a_pool)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(30)
        assert [process.exitcode for process in processes] == [0, 0]
        producer.close()
        print("{}")
        """,
    )
    wanted = expected(parent=100, thread=50, kept_thread=50, pool=50, kept_pool=50)
    assert sorted(values(mock_cluster, "t")) == wanted


def test_a_producer_that_a_child_of_a_forkserver_was_given_sends_what_is_left(
    mock_cluster: MockCluster,
) -> None:
    """It is made before the child counts as multiprocessing's, which then forgets finalizers."""
    run(
        mock_cluster,
        "t",
        """
        import multiprocessing

        with new_producer(linger_ms=1000) as producer:
            values = [b"given-%d" % i for i in range(50)]
            forkserver = multiprocessing.get_context("forkserver")
            process = forkserver.Process(target=producer.send_many, args=(topic, values))
            process.start()
            process.join(30)
            assert process.exitcode == 0, process.exitcode
        print("{}")
        """,
    )
    assert sorted(values(mock_cluster, "t")) == expected(given=50)


def test_a_child_of_multiprocessing_aborts_the_transaction_that_it_leaves_open(peer: Peer) -> None:
    run(
        peer,
        "t",
        """
        import multiprocessing

        def leaves_it_open():
            producer = new_producer(transactional_id="ledger")
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"x").result(20)

        child = multiprocessing.get_context("fork").Process(target=leaves_it_open)
        child.start()
        child.join(30)
        assert child.exitcode == 0
        print("{}")
        """,
    )
    assert [ended.committed for ended in peer.ended_transactions] == [False]


def test_a_fork_of_a_fork(mock_cluster: MockCluster) -> None:
    told = run(
        mock_cluster,
        "t",
        """
        def child():
            futures = send(producer, b"child", 100)
            inner = forking.Child(lambda: grandchild(futures))
            producer.flush(20)
            ids, refused = inner.result()
            producer.close(10)
            return [producer_id(producer), *ids], refused

        def grandchild(theirs):
            refused = []
            for future in (futures[0], theirs[0]):
                try:
                    future.result(1)
                except ForkedFutureError as error:
                    refused.append([error.made_in_pid, error.asked_in_pid])
            mine = send(producer, b"grandchild", 100)
            producer.flush(20)
            assert all(f.result(1) for f in mine)
            producer.close(10)
            return [producer_id(producer)], refused

        producer = new_producer()
        futures = send(producer, b"parent", 100)
        forked = forking.Child(child)
        producer.flush(20)
        ids, refused = forked.result()
        producer.close()
        print(json.dumps({"ids": [producer_id(producer), *ids], "refused": refused,
                          "pids": [os.getpid(), forked.pid]}))
        """,
    )
    assert len(set(told["ids"])) == 3
    assert [made_in for made_in, _ in told["refused"]] == told["pids"]
    assert sorted(values(mock_cluster, "t")) == expected(parent=100, child=100, grandchild=100)


def test_a_fork_right_after_the_producer_was_made(mock_cluster: MockCluster) -> None:
    """As a preloading server does; the parent's control thread may be anywhere."""
    told = run(
        mock_cluster,
        "t",
        """
        def child(name):
            futures = send(producer, name, 10)
            producer.flush(20)
            return len([f.result(1) for f in futures])

        counts = {}
        for number in range(8):
            producer = new_producer()
            name = b"child%d" % number
            assert forking.Child(lambda: child(name)).result() == 10
            counts[name.decode()] = 10
            producer.close()
        print(json.dumps(counts))
        """,
    )
    assert sorted(values(mock_cluster, "t")) == expected(**told)


def test_a_thread_of_the_child_comes_while_another_one_makes_the_new_engine(
    mock_cluster: MockCluster,
) -> None:
    """It is not taken for a call whose answer only the parent gets."""
    run(
        mock_cluster,
        "t",
        """
        from fastprod.client.network_client import NetworkClient

        def child():
            is_half_made, start = threading.Event(), NetworkClient.start

            def start_late(client):
                is_half_made.set()
                time.sleep(0.3)
                start(client)

            NetworkClient.start = start_late
            first = threading.Thread(target=lambda: send(producer, b"first", 1)[0].result(20))
            first.start()
            assert is_half_made.wait(20)
            send(producer, b"second", 1)[0].result(20)
            first.join()
            producer.close(10)

        producer = new_producer()
        send(producer, b"parent", 1)[0].result(20)
        forking.Child(child).result()
        producer.close()
        print("{}")
        """,
    )
    assert sorted(values(mock_cluster, "t")) == expected(parent=1, first=1, second=1)


def test_several_threads_of_the_child_use_it_first_at_the_same_time(
    mock_cluster: MockCluster,
) -> None:
    run(
        mock_cluster,
        "t",
        """
        def child():
            failed = []
            together = threading.Barrier(8)

            def first(name):
                together.wait()
                try:
                    for future in send(producer, name, 20):
                        future.result(20)
                except BaseException as error:
                    failed.append(repr(error))

            threads = [
                threading.Thread(target=first, args=(b"thread%d" % i,)) for i in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            # Not its eventfds: it has another one as soon as a caller drives.
            polls = [each for each in forking.sockets() if "eventpoll" in each]
            producer.close(10)
            return failed, len(polls)

        producer = new_producer()
        send(producer, b"parent", 1)[0].result(20)
        failed, polls = forking.Child(child).result()
        assert not failed, failed
        assert polls == 1, f"{polls} engines were made"
        producer.close()
        print("{}")
        """,
    )
    wanted = expected(parent=1, **{f"thread{i}": 20 for i in range(8)})
    assert sorted(values(mock_cluster, "t")) == wanted


def test_a_producer_that_is_being_closed_or_is_closed_stays_closed_in_the_child(
    mock_cluster: MockCluster,
) -> None:
    run(
        mock_cluster,
        "t",
        """
        from support.broker.black_hole import frozen

        def child():
            kept = forking.sockets()
            try:
                send(producer, b"child", 1)
            except ProducerClosedError:
                producer.flush(1)
                producer.close()
                return kept
            return "sent"

        producer = new_producer()
        send(producer, b"parent", 10)[9].result(20)
        with frozen(int(sys.argv[3])):
            send(producer, b"held", 1)
            closing = threading.Thread(target=producer.close)
            closing.start()
            while not producer.closed:
                time.sleep(0.001)
            assert forking.Child(child, sys.exit).result() == []
        closing.join()
        assert forking.Child(child, sys.exit).result() == []
        print("{}")
        """.replace("sys.argv[3]", str(mock_cluster.pid)),
    )
    assert sorted(values(mock_cluster, "t")) == expected(parent=10, held=1)
