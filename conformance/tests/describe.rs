// SPDX-License-Identifier: GPL-2.0-only
//! A recording may begin on a live pool: what describes it and an epoch give the same bytes as an epoch there.

use takt_conformance::{LogFile, Mode, Run, Shape, hash, maker, replay};
use takt_policy::{Op, OpCode, Pool};

#[test]
fn a_description_rebuilds_the_pool() {
    let make = maker(None).expect("the native core");
    for policy in takt_policy::policies() {
        for seed in 1..=20 {
            let core = make(policy.name).expect("a policy");
            let mut run = Run::new(core, seed, Shape::ALL[seed as usize % Shape::ALL.len()], Mode::Chaos, 1_000);
            let records = run.steps(2_000, true).expect("a sane host");
            let mut live = Pool::new(policy.name).expect("a policy");
            for r in &records {
                live.op(r.op);
            }
            let now = records.iter().map(|r| r.op.now).max().unwrap_or_default().min(1 << 62) + 1;

            let mut copy = Pool::new(policy.name).expect("a policy");
            copy.record();
            for op in live.describe() {
                assert_eq!(copy.op(Op { now, ..op }).ret, 0, "{op:?}");
            }
            let again = Pool::from_bytes(live.bytes()).expect("a pool");
            assert_eq!((again.policy(), again.bytes()), (policy.name, live.bytes()));
            live.epoch(now).expect("an epoch");
            copy.epoch(now).expect("an epoch");
            // But for the outputs: which timers an epoch has changed depends on what they were.
            let differ = live.bytes().iter().zip(copy.bytes()).skip(32).position(|(a, b)| a != b);
            assert_eq!(differ, None, "{} seed {seed}", policy.name);
            let (pool_size, pool_hash) = (copy.bytes().len() as u64, hash(copy.bytes()));
            let log = LogFile {
                policy: policy.name.into(),
                pool_size,
                pool_hash,
                records: copy.take_log(),
                ..LogFile::default()
            };
            assert_eq!(log.records.last().map(|r| r.op.op), Some(OpCode::Epoch as u16));
            replay(&log).expect("a recording that begins so");
        }
    }
    assert!(Pool::from_bytes(&[0; 64]).is_none());
}
