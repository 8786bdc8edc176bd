use std::sync::mpsc::Sender;

use bookguard_core::model::PartnerId;

use super::*;

const SOMEBODY: Payer = Payer::Operator;

fn partner(n: u8) -> Payer {
    Payer::Partner(PartnerId::from_bytes([n; 16]))
}

type Reading = tokio::task::JoinHandle<Result<bool, Error>>;

/// Asks for reads that wait until the returned sender is dropped, and then return true.
fn wait_at_a_gate(
    readers: &Arc<Readers>,
    payer: Payer,
    class: ReadClass,
    count: usize,
) -> (Sender<()>, Vec<Reading>) {
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let ask = |_| {
        let (readers, gate) = (Arc::clone(readers), Arc::clone(&gate));
        tokio::spawn(async move {
            let wait = move || Ok(gate.lock().unwrap().recv().is_err());
            readers.run(payer, class, wait).await
        })
    };
    (open, (0..count).map(ask).collect())
}

#[test]
fn everybody_has_a_turn_and_what_is_one_s_own_stays_in_its_order() {
    // The jobs in order of arrival, each with its caller, and the order in which they are served.
    for (came, goes) in [
        ("", ""),
        ("a1 a2 a3", "a1 a2 a3"),
        ("a1 a2 a3 b1", "a1 b1 a2 a3"),
        ("a1 a2 a3 b1 c1 c2 b2", "a1 b1 c1 a2 b2 c2 a3"),
        // At most four are queued for each caller.
        ("a1 a2 a3 a4 a5 a6 b1", "a1 b1 a2 a3 a4"),
    ] {
        let mut turns = Turns::default();
        for word in came.split_whitespace() {
            turns.add(&word[..1], word, 4);
        }
        let gone: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
        assert_eq!(gone.join(" "), goes);
        assert!(turns.waiting.is_empty() && turns.order.is_empty());
    }
}

#[test]
fn whoever_has_had_a_turn_is_behind_those_who_have_not() {
    let mut turns = Turns::default();
    turns.add("a", "a1", 4);
    turns.add("a", "a2", 4);
    turns.add("b", "b1", 4);
    assert_eq!(turns.next(), Some("a1"));
    turns.add("a", "a3", 4);
    turns.add("c", "c1", 4);
    let gone: Vec<_> = std::iter::from_fn(|| turns.next()).collect();
    assert_eq!(gone, ["b1", "a2", "c1", "a3"]);
}

#[test]
fn networks_take_one_turn_together_for_long_reads() {
    let network = |n: u32| Payer::at(Some(std::net::Ipv4Addr::from(n).into()));
    let came = [
        (network(1), "n1"),
        (network(1), "n1"),
        (network(2), "n2"),
        (network(3), "n3"),
        (partner(1), "p"),
        (partner(1), "p"),
    ];
    for (class, goes) in [
        (ReadClass::Long, "n1 p n2 p n3 n1"),
        (ReadClass::Short, "n1 n2 n3 p n1 p"),
    ] {
        let (tell, told) = std::sync::mpsc::channel();
        let mut queue = Queue::default();
        for (payer, name) in came {
            let tell = tell.clone();
            assert!(queue.add(payer, class, Box::new(move || tell.send(name).unwrap())));
        }
        std::iter::from_fn(|| queue.next()).for_each(|job| job());
        let gone: Vec<&str> = told.try_iter().collect();
        assert_eq!(gone.join(" "), goes, "{class:?}");
        assert!(queue.networks.waiting.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_work_of_one_caller_is_bounded_and_blocks_no_other() {
    let readers = Arc::new(Readers::start(0).unwrap());
    let most = ReadClass::Long.waiting();
    let (open, long) = wait_at_a_gate(&readers, partner(1), ReadClass::Long, most + THREADS.1);
    // While every thread for long reads waits at the gate, everybody's short reads are done.
    for n in [1, 2] {
        let short = readers.run(partner(n), ReadClass::Short, move || Ok(n));
        assert_eq!(short.await, Ok(n));
    }
    // Some exceed the limit, and are refused while the others wait.
    let refused = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        loop {
            let ended = long.iter().filter(|asked| asked.is_finished()).count();
            if ended > 0 {
                return ended;
            }
            tokio::task::yield_now().await;
        }
    });
    assert!(refused.await.unwrap() <= THREADS.1);
    drop(open);
    let mut done = 0;
    for asked in long {
        match asked.await.unwrap() {
            Ok(waited) => done += usize::from(waited),
            Err(refused) => assert_eq!(refused.code, "rate_limited"),
        }
    }
    assert!(done >= most, "{done}");
}

#[tokio::test(start_paused = true)]
async fn long_work_that_is_not_done_in_time_is_refused() {
    let readers = Readers::start(0).unwrap();
    let (open, gate) = std::sync::mpsc::channel::<()>();
    let endless = move || Ok(gate.recv().is_err());
    let due = Instant::now() + Duration::from_secs(35);
    let refused = readers.run_until(due, SOMEBODY, ReadClass::Long, endless);
    let refused = refused.await.unwrap_err();
    assert_eq!(refused.code, "unavailable");
    assert_eq!(refused.retry_after_s, Some(1));
    let short = readers.run_until(due, SOMEBODY, ReadClass::Short, || Ok(1));
    assert_eq!(short.await, Ok(1));
    drop(open);
}

#[tokio::test]
async fn look_ups_do_not_wait_for_slow_reads() {
    let readers = Arc::new(Readers::start(0).unwrap());
    // Every thread for short reads waits at the gate.
    let (open, busy) = wait_at_a_gate(&readers, partner(1), ReadClass::Short, THREADS.1);
    tokio::task::yield_now().await;
    let looked_up = readers.run(partner(1), ReadClass::LookUp, || Ok(1));
    let looked_up = tokio::time::timeout(Duration::from_secs(20), looked_up);
    assert_eq!(looked_up.await, Ok(Ok(1)));
    drop(open);
    for busy in busy {
        assert_eq!(busy.await.unwrap(), Ok(true));
    }
}

#[tokio::test]
async fn many_at_once_all_come_back_with_their_own() {
    let readers = Arc::new(Readers::start(0).unwrap());
    let asked = (0..500).map(|n| {
        let readers = Arc::clone(&readers);
        tokio::spawn(async move {
            let read = readers.run(SOMEBODY, ReadClass::Short, move || Ok(n));
            assert_eq!(read.await, Ok(n));
        })
    });
    for asked in asked.collect::<Vec<_>>() {
        asked.await.unwrap();
    }
}

#[tokio::test]
async fn a_short_read_of_a_file_stays_on_its_own_thread_while_others_are_left() {
    let readers = Readers::start(1).unwrap();
    let own = std::thread::current().id();
    let which = || Ok(std::thread::current().id());
    let here = |class| readers.run(SOMEBODY, class, which);
    assert_eq!(here(ReadClass::Short).await, Ok(own));
    assert_ne!(here(ReadClass::Long).await, Ok(own));
    // As many reads as allowed are running here.
    let _reading = readers.in_place.acquire().await;
    assert_ne!(here(ReadClass::Short).await, Ok(own));
}

#[tokio::test]
async fn a_panic_reaches_its_caller_and_leaves_the_thread_to_the_others() {
    let readers = Arc::new(Readers::start(0).unwrap());
    for _ in 0..2 * THREADS.1 {
        let readers = Arc::clone(&readers);
        let asked = tokio::spawn(async move {
            readers
                .run::<()>(SOMEBODY, ReadClass::Short, || panic!("of the work"))
                .await
        });
        assert!(asked.await.unwrap_err().is_panic());
    }
    let next = readers.run(SOMEBODY, ReadClass::Short, || Ok(1));
    assert_eq!(next.await, Ok(1));
}

#[tokio::test]
async fn what_nobody_waits_for_is_not_begun() {
    let readers = Arc::new(Readers::start(0).unwrap());
    // Every thread waits at the gate, so new jobs stay in the queue.
    let (open, busy) = wait_at_a_gate(&readers, SOMEBODY, ReadClass::Short, THREADS.1);
    tokio::task::yield_now().await;
    let begun = Arc::new(Mutex::new(false));
    let late = {
        let (readers, begun) = (Arc::clone(&readers), Arc::clone(&begun));
        tokio::spawn(async move {
            let begin = move || {
                *begun.lock().unwrap() = true;
                Ok(())
            };
            readers.run(SOMEBODY, ReadClass::Short, begin).await
        })
    };
    tokio::task::yield_now().await;
    late.abort();
    assert!(late.await.unwrap_err().is_cancelled());
    drop(open);
    for busy in busy {
        assert_eq!(busy.await.unwrap(), Ok(true));
    }
    let next = readers.run(SOMEBODY, ReadClass::Short, || Ok(()));
    assert_eq!(next.await, Ok(()));
    assert!(!*begun.lock().unwrap());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn long_reads_give_way_but_not_entirely() {
    /// The nice value and the scheduling policy of this thread (see proc(5)).
    fn priority() -> Result<(i32, i32), Error> {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_the_name = stat.rsplit(") ").next().unwrap();
        let fields: Vec<_> = after_the_name.split(' ').collect();
        Ok((fields[16].parse().unwrap(), fields[38].parse().unwrap()))
    }
    let readers = Readers::start(0).unwrap();
    let (own, policy) = priority().unwrap();
    let nicer = (own + 10).min(19);
    for (class, nice) in [(ReadClass::Short, own), (ReadClass::Long, nicer)] {
        let found = readers.run(SOMEBODY, class, priority).await;
        assert_eq!(found, Ok((nice, policy)), "{class:?}");
    }
}
