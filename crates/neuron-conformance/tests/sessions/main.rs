//! Tests of the session suite. A correct storage passes, and each broken one fails in the part that checks its
//! behaviour.

mod damage;
mod killed;
mod mutant;

use std::future::Future;

use mutant::{CORRECT, Mutant};
use neuron_conformance::check_session_storage;
use neuron_conformance::session::{self, Load};

/// Checks that a part of the suite fails with a message that names the case.
async fn caught(part: impl Future<Output = ()> + Send + 'static, says: &str) {
    let panic = match tokio::spawn(part).await {
        Ok(()) => panic!("nothing was caught"),
        Err(error) => error.into_panic(),
    };
    let text = panic.downcast_ref::<String>().expect("a text");
    assert!(text.starts_with("the session storage does not conform: "), "{text}");
    assert!(text.contains(says), "something else was caught: {text}");
}

/// Writes one test per mutation, with the part that must fail and a piece of its message.
macro_rules! caught {
    ($($name:ident: $mutation:ident by $part:ident: $says:literal;)*) => {$(
        #[tokio::test]
        async fn $name() {
            let part = async { parts::$part(&Mutant::new(stringify!($mutation))).await };
            caught(part, $says).await;
        }
    )*};
}

/// The parts of the suite. `load` has the default size.
mod parts {
    pub(crate) use neuron_conformance::session::*;

    pub(crate) async fn load(storage: &super::Mutant) {
        let _ = neuron_conformance::session::load(storage, Load::default()).await;
    }
}

caught! {
    nanoseconds_are_cut: CutsTimes by round_trips: "created_at";
    keys_are_sorted: SortsKeys by round_trips: "every kind of block: the bytes of message 3";
    texts_end_at_nul: CutsAtNul by round_trips: "every kind of block: message";
    floats_lose_a_bit: RoundsFloats by round_trips: "every kind of block: message 3";
    the_state_is_forgotten: ForgetsState by round_trips: "the state";
    the_last_message_is_lost: LosesLastMessage by round_trips: "the number of messages";
    loading_changes_what_is_there: LoadingChanges by round_trips: "what is listed";
    what_is_deep_cannot_be_read: CannotReadDeep by sizes: "nested 127 deep: failed";
    what_is_missing_is_empty: MissingIsEmpty by missing: "never there: gave";
    deleting_nothing_succeeds: DeletesNothing by missing: "never there: gave";
    missing_is_another_error: MissingIsOther by missing: "not with NotFound";
    deleting_leaves_it_listed: ListsDeleted by missing: "what is listed";
    a_shorter_history_keeps_the_rest: KeepsTheRest by rewriting: "longer, and back: the number of messages";
    only_new_messages_are_saved: SavesNewMessages by rewriting: "without its first message, and back: message 0";
    the_newest_time_wins: NewestWins by rewriting: "with an older time";
    bad_ids_are_taken: TakesBadIds by ids: ": gave () and must fail";
    bad_ids_are_missing: BadIdIsMissing by ids: ": failed with NotFound";
    ids_are_folded: FoldsIds by ids: "\"chat\" and \"CHAT\"";
    ids_are_cut: CutsIds by ids: "what is listed";
    lists_are_unordered: ListsUnordered by listing: "what is listed";
    lists_are_in_a_dictionarys_order: ListsByLanguage by listing: "what is listed";
    lists_count_wrong: CountsOne by listing: "what is listed";
    a_dropped_save_is_half: TearsSaves by dropping: "a save dropped after";
    a_dropped_save_comes_later: SavesLater by dropping: "then saved again";
    writers_tear: TearsSaves by writers: "writers of one session: ";
    writers_disturb_each_other: FailsWhenBusy by writers: "failed: ";
    create_overwrites: CreateOverwrites by creating: "an id that is taken: gave";
    create_is_two_steps: CreateRaces by creating: "at once: the number of creators";
    update_creates: UpdateCreates by creating: "an id that was deleted: gave";
    reading_gives_revisions: ReadingRevises by creating: "the revision";
    every_update_writes: UpdateIgnores by updating: "is 1 older: gave";
    update_writes_in_spite_of_a_conflict: ConflictWrites by updating: "older: ";
    conflicts_are_other_errors: ConflictIsOther by updating: "not with Conflict";
    saving_keeps_the_revision: SaveKeepsRevision by updating: "after a save: gave";
    revisions_count_from_one: CountsFromOne by updating: "the revision of another session: gave";
    every_append_writes: AppendIgnores by appending: "an old revision: gave";
    appended_states_are_dropped: AppendDropsState by appending: "the state";
    appended_messages_come_first: AppendsFirst by appending: "messages of every kind: message 0";
    appending_replaces: AppendReplaces by appending: "the number of messages";
    appending_keeps_the_time: AppendKeepsTime by appending: "updated_at";
    appending_nothing_writes_nothing: AppendSkips by appending: "no message: append gave";
    revisions_begin_again: BeginsAgain by revisions: "there was before";
    revisions_are_of_the_content: HashesContent by revisions: "there was before";
    bad_ids_are_taken_with_revisions: VersionedTakesBadIds by versioned_ids: "gave";
    a_dropped_update_is_half: TearsUpdates by versioned_dropping: "an update dropped";
    a_dropped_append_is_half: TearsAppends by versioned_dropping: "an append dropped";
    updates_are_lost: UpdateRaces by load: "what task";
    appends_are_lost: AppendRaces by load: "what task";
    state_and_messages_come_apart: TearsAppends by load: "the events that the state counts";
    appends_come_twice: AppendsTwice by load: "";
}

/// The base of all mutants conforms.
#[tokio::test]
async fn nothing_is_caught_where_nothing_is_broken() {
    let storage = Mutant::new(CORRECT);
    let suite = check_session_storage(&storage);
    // A user's runtime may move the future between threads.
    fn is_send<T: Send>(work: T) -> T {
        work
    }
    is_send(suite).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_on_several_threads() {
    check_session_storage(&Mutant::new(CORRECT)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_says_what_was_written() {
    let storage = Mutant::new(CORRECT);
    let load = Load { tasks: 5, sessions: 2, writes: 9, time: None };
    let tally = session::load(&storage, load).await;
    assert_eq!(tally.writes, 45);
}
