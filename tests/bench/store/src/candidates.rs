//! The databases, each behind the same few operations, each used as its
//! documentation says is fast.

use crate::workload::Workload;
use format_spec::digest::Digest;
use format_spec::file::IndexSlot;
use std::ops::Range;
use std::path::Path;

/// A database that is open.
pub trait Candidate: Sync {
    /// Inserts some records of the workload in one transaction.
    fn insert(&self, workload: &Workload, records: Range<usize>, durable: bool);
    /// How many of the keys are there. Reads the value's length of each.
    fn count_found(&self, keys: &[Digest]) -> usize;
    /// The same, of many keys with one call, where there is one for that.
    fn count_found_at_once(&self, _keys: &[Digest]) -> Option<usize> {
        None
    }
    /// Bytes of the file in use, where that is known without compaction.
    fn bytes_used(&self) -> Option<u64> {
        None
    }
}

/// Which database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Store,
    #[cfg(feature = "peers")]
    Lmdb,
    #[cfg(feature = "peers")]
    Redb,
    #[cfg(feature = "peers")]
    Fjall,
    #[cfg(feature = "rocksdb")]
    RocksDb,
}

impl Kind {
    pub fn all() -> Vec<Kind> {
        vec![
            Kind::Store,
            #[cfg(feature = "peers")]
            Kind::Lmdb,
            #[cfg(feature = "peers")]
            Kind::Redb,
            #[cfg(feature = "peers")]
            Kind::Fjall,
            #[cfg(feature = "rocksdb")]
            Kind::RocksDb,
        ]
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Store => "store",
            #[cfg(feature = "peers")]
            Kind::Lmdb => "lmdb",
            #[cfg(feature = "peers")]
            Kind::Redb => "redb",
            #[cfg(feature = "peers")]
            Kind::Fjall => "fjall",
            #[cfg(feature = "rocksdb")]
            Kind::RocksDb => "rocksdb",
        }
    }

    pub fn open(self, path: &Path) -> Box<dyn Candidate> {
        match self {
            Kind::Store => Box::new(engine::open(path)),
            #[cfg(feature = "peers")]
            Kind::Lmdb => Box::new(lmdb::open(path)),
            #[cfg(feature = "peers")]
            Kind::Redb => Box::new(redb_peer::open(path)),
            #[cfg(feature = "peers")]
            Kind::Fjall => Box::new(fjall_peer::open(path)),
            #[cfg(feature = "rocksdb")]
            Kind::RocksDb => Box::new(rocks::open(path)),
        }
    }

    /// A second handle on a database that is open, where that is allowed.
    pub fn open_again(self, path: &Path) -> Option<Box<dyn Candidate>> {
        (self == Kind::Store).then(|| self.open(path))
    }

    /// Whether a durable commit takes so long that a million records in a thousand
    /// of them would take most of a run.
    pub fn is_slow_at_commits(self) -> bool {
        match self {
            #[cfg(feature = "peers")]
            Kind::Lmdb | Kind::Redb => true,
            _ => false,
        }
    }

    /// Inserts everything in one transaction (fjall has none so large: in
    /// batches that are made durable at the end).
    pub fn insert_bulk(self, candidate: &dyn Candidate, workload: &Workload) {
        #[cfg(feature = "peers")]
        if self == Kind::Fjall {
            for batch in workload.batches(10_000) {
                let last = batch.end == workload.len();
                candidate.insert(workload, batch, last);
            }
            return;
        }
        candidate.insert(workload, 0..workload.len(), true);
    }
}

mod engine {
    use super::*;
    use store::engine::{Durability, GROUP, OpenOptions, Store};

    pub fn open(path: &Path) -> Store {
        open_with(path, OpenOptions::default().checkpoint_every)
    }

    pub fn open_with(path: &Path, checkpoint_every: u64) -> Store {
        let options = OpenOptions {
            create: true,
            checkpoint_every,
            ..OpenOptions::default()
        };
        Store::open(path, &options).expect("store opens")
    }

    impl Candidate for Store {
        fn insert(&self, workload: &Workload, records: Range<usize>, durable: bool) {
            let durability = if durable {
                Durability::Durable
            } else {
                Durability::Lazy
            };
            let index = IndexSlot::of::<0>();
            let mut transaction = self.begin(durability).expect("begins");
            for i in records.clone() {
                if (i - records.start).is_multiple_of(GROUP) {
                    let group = i..(i + GROUP).min(records.end);
                    transaction
                        .base()
                        .prefetch_keys(index, workload.keys(group));
                }
                let inserted = transaction.insert(index, &workload.key(i), workload.value(i));
                inserted.expect("inserts");
            }
            transaction.commit().expect("commits");
        }

        fn count_found(&self, keys: &[Digest]) -> usize {
            let snapshot = self.snapshot().expect("snapshot");
            (keys.iter())
                .filter_map(|key| snapshot.get(IndexSlot::of::<0>(), key).expect("no error"))
                .filter(|record| !record.value.is_empty())
                .count()
        }

        fn count_found_at_once(&self, keys: &[Digest]) -> Option<usize> {
            let snapshot = self.snapshot().expect("snapshot");
            let mut count = 0;
            let looked_up = snapshot.get_many(IndexSlot::of::<0>(), keys, |_, record| {
                count += usize::from(record.is_some_and(|record| !record.value.is_empty()));
            });
            looked_up.expect("no error");
            Some(count)
        }

        fn bytes_used(&self) -> Option<u64> {
            self.size().ok()
        }
    }
}

/// How long the first opening after a power cut takes, with the checkpoint
/// where the durable commits left it, and how long it takes to verify all.
pub fn recover_and_verify(path: &Path) -> [(&'static str, f64); 2] {
    use std::time::Instant;
    use store::engine::{OpenOptions, Store, System};
    struct NextBoot;
    impl System for NextBoot {
        fn boot_id(&self) -> [u8; 16] {
            [7; 16]
        }
    }
    let options = OpenOptions {
        system: std::sync::Arc::new(NextBoot),
        ..OpenOptions::default()
    };
    let start = Instant::now();
    let store = Store::open(path, &options).expect("recovers");
    let recovered = start.elapsed().as_secs_f64();
    let start = Instant::now();
    store.verify().expect("verifies");
    let verified = start.elapsed().as_secs_f64();
    [("open after a power cut", recovered), ("verify", verified)]
}

/// The store, moving its checkpoint never.
pub fn open_without_checkpoints(path: &Path) -> Box<dyn Candidate> {
    Box::new(engine::open_with(path, u64::MAX))
}

/// Checks a repository that many processes have filled.
pub fn check_store(path: &Path, records: usize) {
    let store = engine::open(path);
    store.verify().expect("verifies");
    assert_eq!(
        store
            .snapshot()
            .expect("snapshot")
            .count(IndexSlot::of::<0>()),
        records as u64
    );
}

#[cfg(feature = "peers")]
mod lmdb {
    use super::*;
    use heed::types::Bytes;
    use heed::{Database, Env, EnvFlags, EnvOpenOptions, WithTls};

    pub struct Lmdb {
        env: Env<WithTls>,
        database: Database<Bytes, Bytes>,
    }

    pub fn open(path: &Path) -> Lmdb {
        std::fs::create_dir_all(path).expect("directory");
        // SAFETY: nobody else touches the directory.
        let env = unsafe {
            EnvOpenOptions::new()
                .map_size(16 << 30)
                .flags(EnvFlags::NO_READ_AHEAD)
                .open(path)
        }
        .expect("lmdb opens");
        let mut transaction = env.write_txn().expect("begins");
        let database = env
            .create_database(&mut transaction, None)
            .expect("database");
        transaction.commit().expect("commits");
        Lmdb { env, database }
    }

    impl Candidate for Lmdb {
        fn insert(&self, workload: &Workload, records: Range<usize>, _durable: bool) {
            let mut transaction = self.env.write_txn().expect("begins");
            for i in records {
                let put =
                    self.database
                        .put(&mut transaction, &workload.key(i).0, workload.value(i));
                put.expect("puts");
            }
            transaction.commit().expect("commits");
        }

        fn count_found(&self, keys: &[Digest]) -> usize {
            let transaction = self.env.read_txn().expect("begins");
            (keys.iter())
                .filter_map(|key| self.database.get(&transaction, &key.0).expect("no error"))
                .filter(|value| !value.is_empty())
                .count()
        }
    }
}

#[cfg(feature = "peers")]
mod redb_peer {
    use super::*;
    use redb::{Database, Durability, ReadableDatabase, TableDefinition};

    const TABLE: TableDefinition<'_, &[u8; 32], &[u8]> = TableDefinition::new("records");

    pub fn open(path: &Path) -> Database {
        Database::create(path).expect("redb opens")
    }

    impl Candidate for Database {
        fn insert(&self, workload: &Workload, records: Range<usize>, durable: bool) {
            let mut transaction = self.begin_write().expect("begins");
            let durability = if durable {
                Durability::Immediate
            } else {
                Durability::None
            };
            transaction.set_durability(durability).expect("durability");
            {
                let mut table = transaction.open_table(TABLE).expect("table");
                for i in records {
                    table
                        .insert(&workload.key(i).0, workload.value(i))
                        .expect("inserts");
                }
            }
            transaction.commit().expect("commits");
        }

        fn count_found(&self, keys: &[Digest]) -> usize {
            let transaction = self.begin_read().expect("begins");
            let table = transaction.open_table(TABLE).expect("table");
            (keys.iter())
                .filter_map(|key| table.get(&key.0).expect("no error"))
                .filter(|value| !value.value().is_empty())
                .count()
        }
    }
}

#[cfg(feature = "peers")]
mod fjall_peer {
    use super::*;
    use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

    pub struct Fjall {
        database: Database,
        keyspace: Keyspace,
    }

    pub fn open(path: &Path) -> Fjall {
        let database = Database::builder(path)
            .cache_size(1 << 30)
            .open()
            .expect("fjall opens");
        let keyspace = database.keyspace("records", KeyspaceCreateOptions::default);
        Fjall {
            database,
            keyspace: keyspace.expect("keyspace"),
        }
    }

    impl Candidate for Fjall {
        fn insert(&self, workload: &Workload, records: Range<usize>, durable: bool) {
            let mut batch = self.database.batch();
            if durable {
                batch = batch.durability(Some(PersistMode::SyncData));
            }
            for i in records {
                batch.insert(&self.keyspace, workload.key(i).0, workload.value(i));
            }
            batch.commit().expect("commits");
        }

        fn count_found(&self, keys: &[Digest]) -> usize {
            (keys.iter())
                .filter_map(|key| self.keyspace.get(key.0).expect("no error"))
                .filter(|value| !value.is_empty())
                .count()
        }
    }
}

#[cfg(feature = "rocksdb")]
mod rocks {
    use super::*;
    use rocksdb::{BlockBasedOptions, Cache, DB, Options, WriteBatch, WriteOptions};

    pub fn open(path: &Path) -> DB {
        let mut block = BlockBasedOptions::default();
        block.set_bloom_filter(10.0, false);
        block.set_block_cache(&Cache::new_lru_cache(1 << 30).expect("a cache of 1 GiB"));
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&block);
        DB::open(&options, path).expect("rocksdb opens")
    }

    impl Candidate for DB {
        fn insert(&self, workload: &Workload, records: Range<usize>, durable: bool) {
            let mut batch = WriteBatch::default();
            for i in records {
                batch.put(workload.key(i).0, workload.value(i));
            }
            let mut options = WriteOptions::default();
            options.set_sync(durable);
            self.write_opt(batch, &options).expect("commits");
        }

        fn count_found(&self, keys: &[Digest]) -> usize {
            (keys.iter())
                .filter_map(|key| self.get_pinned(key.0).expect("no error"))
                .filter(|value| !value.is_empty())
                .count()
        }

        fn count_found_at_once(&self, keys: &[Digest]) -> Option<usize> {
            let groups = keys.chunks(256).map(|keys| {
                let values = self.multi_get(keys.iter().map(|key| key.0));
                (values.into_iter())
                    .filter_map(|value| value.expect("no error"))
                    .filter(|value| !value.is_empty())
                    .count()
            });
            Some(groups.sum())
        }
    }
}
