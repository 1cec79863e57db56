//! One suite, two engines: what a store promises, checked against SQLite and against PostgreSQL.
//!
//! Each case is written once over `Fixture` and shows up as two tests, `sqlite::name` and `postgres::name`; and
//! all of a port's again, in one test, with PostgreSQL behind a transaction pooler.

#![cfg(test)]

use syncline_store::{Error, Store};

mod conformance {
    pub(crate) mod access;
    pub(crate) mod fixture;
    pub(crate) mod guest;
    pub(crate) mod inbox;
    pub(crate) mod kv;
    pub(crate) mod kv_changes;
    pub(crate) mod lock;
    pub(crate) mod outbox;
    pub(crate) mod outbox_rows;
    pub(crate) mod pooler;
    pub(crate) mod queue;
    pub(crate) mod queue_groups;
    pub(crate) mod queue_model;
    pub(crate) mod queue_tasks;
    pub(crate) mod schedule;
    pub(crate) mod schedule_records;
    pub(crate) mod state;
    pub(crate) mod state_entities;
    pub(crate) mod store;
}

macro_rules! conformance {
    ($($module:ident { $($case:ident,)* })*) => {
        mod sqlite {
            use crate::conformance::{self, fixture::Fixture};
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    conformance::$module::$case(&Fixture::sqlite().await).await;
                }
            )*)*
        }

        mod postgres {
            use crate::conformance::{self, fixture::Fixture};
            $($(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    conformance::$module::$case(&Fixture::postgres().await).await;
                }
            )*)*
        }

        mod postgres_behind_a_transaction_pooler {
            use crate::conformance::{self, fixture::Fixture};
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $module() {
                    $(
                        println!(stringify!($case));
                        // On the heap: all cases of a port in one future would not fit on a stack.
                        let fixture = Fixture::pooled().await;
                        Box::pin(conformance::$module::$case(&fixture)).await;
                    )*
                }
            )*
        }
    };
}

conformance! {
    store {
        an_open_store_answers_and_names_itself,
        a_trial_write_needs_no_tables_of_a_part_and_leaves_nothing,
        what_was_stored_is_there_after_reopening,
        a_closed_store_refuses_everything,
        eight_opens_of_an_empty_database_at_once_all_succeed,
        a_database_newer_than_the_program_is_refused_untouched,
    }
    guest {
        hs_03_a_store_opened_for_locks_alone_has_their_tables_and_nothing_else,
        hs_04_tables_of_the_application_that_have_our_names_are_left_alone,
        hs_04_a_database_from_before_parts_is_taken_over_with_its_rows,
        hs_04_an_outbox_from_before_parts_goes_on_and_the_rest_follows,
        hs_04_without_the_right_to_migrate_what_is_missing_is_named,
    }
    kv {
        vw_03_a_value_is_read_back_with_its_time_left,
        vw_03_an_expired_key_is_never_returned_though_its_row_is_there,
        vw_02_putting_again_renews_the_time_to_live,
        vw_03_a_key_put_without_time_to_live_stays,
        vw_02_deleting_is_idempotent_and_tells_whether_the_key_lived,
        vw_07_of_fifty_put_new_at_once_one_wins,
        vw_07_of_twenty_put_new_on_an_expired_key_one_wins,
        vw_03_a_prefix_is_literal,
        vw_03_a_listing_is_in_byte_order_and_stops_at_its_limit,
        vw_03_the_largest_key_and_value_are_kept_whole,
        vw_03_what_breaks_a_bound_is_refused_and_nothing_is_stored,
        vw_03_an_acknowledged_write_is_seen_at_once_from_everywhere,
        vw_03_a_sweep_removes_expired_keys_alone_and_in_steps,
        vw_04_a_listing_has_what_expired_swept_and_finds_the_live_key,
        vw_03_pages_are_bounded_in_bytes_and_lead_through_every_key_once,
    }
    kv_changes {
        vw_33_a_version_grows_with_every_write_and_another_life_has_another,
        vw_33_conditions_hold_or_nothing_is_written,
        vw_33_of_twenty_changes_of_one_version_one_succeeds,
        vw_33_increments_of_many_at_once_add_up,
        vw_33_a_batch_happens_as_a_whole_or_not_at_all,
        vw_33_what_a_batch_reads_is_bounded_in_bytes,
        vw_33_batches_in_any_order_do_not_wait_for_each_other,
        vw_32_the_keys_of_a_part_are_out_of_reach,
        vw_33_changes_are_heard_where_they_are_made_and_on_other_nodes,
    }
    queue {
        qu_01_twenty_enqueues_at_once_make_no_duplicate,
        qu_02_outcomes_from_elsewhere_are_kept_for_queued_keys_alone,
        qu_04_a_429_comes_back_after_the_delay_and_other_failures_end_empty,
        qu_20_what_is_enqueued_running_and_done_is_there_after_reopening,
        qu_20_a_lost_call_is_made_again_and_its_late_answer_is_dropped,
        qu_20_a_renewed_call_has_a_later_deadline,
        qu_21_calls_of_all_stores_keep_one_interval,
        qu_22_attempts_used_up_lead_to_the_dead_list_which_can_be_revived,
        qu_22_an_api_that_keeps_failing_is_paused_for_all_and_probed,
        qu_25_again_while_running_causes_exactly_one_more_run,
        qu_25_a_key_keeps_its_priority_through_a_retry,
        qu_22_a_retry_that_is_due_is_not_looked_for_while_the_queue_is_paused,
        qu_26_a_pause_that_was_asked_for_holds_the_whole_queue_everywhere,
        qu_26_an_unreadable_pace_means_one_interval_and_loses_no_key,
        qu_20_calls_not_made_are_first_in_line_again_in_their_order,
        qu_20_whoever_watches_hears_of_keys_and_results_from_elsewhere,
        qu_20_a_result_that_cannot_be_kept_is_a_failure_that_says_so,
        a_listing_of_long_results_is_cut_and_can_be_gone_on_with,
        what_breaks_a_bound_of_a_queue_is_refused_and_changes_nothing,
    }
    queue_groups {
        qu_32_groups_take_turns_and_a_long_one_delays_no_other,
        qu_32_no_group_exceeds_its_interval_on_two_nodes,
        qu_32_starts_of_one_group_side_by_side_keep_the_interval,
        qu_32_a_group_is_held_and_let_go_and_no_other_notices,
        qu_32_a_key_keeps_its_group_through_retries_removal_revival_and_release,
        qu_32_keys_that_were_in_line_before_there_were_groups_are_put_into_theirs,
        qu_32_an_unreadable_pace_loses_no_key_of_any_group,
        qu_35_a_key_that_goes_on_is_in_the_group_that_the_next_queue_says,
        qu_33_a_pace_that_is_set_counts_on_all_nodes_at_once_until_it_is_given_back,
        qu_33_results_go_when_their_time_is_over_and_their_keys_run_again,
    }
    queue_tasks {
        qu_30_a_key_carries_its_newest_input_until_it_runs_and_keeps_it_for_the_next_time,
        qu_30_inputs_are_bounded_and_a_refused_batch_changes_nothing,
        qu_31_a_claim_with_a_lease_of_its_own_is_lost_by_that_and_its_late_answer_is_refused,
        qu_31_a_claim_whose_key_was_removed_cannot_be_extended,
        qu_33_nothing_starts_while_a_queue_is_paused_and_all_does_afterwards,
        qu_33_a_key_does_not_start_before_its_time,
        qu_33_a_key_that_has_expired_fails_and_takes_no_part_of_the_pace,
        qu_33_a_state_can_be_emptied_and_what_runs_stays,
        qu_35_a_key_with_a_result_is_in_the_next_queue_in_the_same_moment,
    }
    queue_model {
        qu_01_every_history_is_that_of_the_queue_in_memory,
    }
    schedule {
        vw_31_pausing_resuming_and_cancelling_are_seen_by_every_node,
        vw_31_the_newest_firing_on_record_is_known_after_an_outage,
        vw_07_of_many_claims_of_a_bucket_one_wins,
        vw_07_a_run_bucket_stays_taken_when_its_lock_is_gone,
        vw_07_a_lock_held_by_another_takes_the_bucket,
        a_bucket_skipped_by_several_nodes_has_one_record,
        vw_07_a_skipped_bucket_can_still_be_won_and_the_totals_follow,
        vw_07_skips_racing_with_claims_never_stop_the_one_run,
        runs_by_hand_compete_with_nothing,
        bad_names_reasons_and_limits_are_refused,
    }
    lock {
        lk_20_of_many_that_ask_at_once_one_is_granted,
        lk_23_the_rule_of_the_record_holds_in_the_store,
        lk_23_asking_twice_with_one_lease_is_asking_once,
        lk_23_tokens_grow_over_release_expiry_reopening_forgetting_and_restoring,
        lk_23_locks_are_listed_looked_at_and_ended_by_force,
        lk_21_a_release_is_heard_here_and_elsewhere,
        lk_23_what_breaks_a_bound_is_refused,
    }
    outbox {
        ss_02_entries_are_fetched_oldest_first_and_marked,
        ss_32_as_many_of_those_that_failed_come_back_as_are_asked_for,
        ss_32_the_newest_entries_can_be_claimed_first_and_each_entity_keeps_its_order,
        ss_37_an_outbox_can_be_given_another_name,
        ss_01_an_entry_is_committed_with_the_callers_rows_or_not_at_all,
        ss_22_an_entry_is_in_flight_once_whoever_claims,
        ss_22_entries_of_an_entity_go_in_order_and_hold_nobody_up,
        ss_22_a_long_row_of_one_entity_is_passed_by_and_comes_back_in_order,
        ss_22_a_dead_workers_claims_come_back_and_its_late_word_is_not_heard,
        ss_23_failures_wait_then_die_and_can_be_revived_or_discarded,
        ss_23_only_processed_entries_are_cleaned_up_and_in_steps,
        ss_20_a_commit_elsewhere_is_heard,
        ss_07_a_receipt_is_kept_and_the_applications_row_says_uploaded,
        ss_25_settings_are_read_from_columns_or_keys,
        ss_29_what_breaks_a_bound_of_the_outbox_is_refused,
        ss_01_a_plain_table_is_taken_over_with_its_rows,
    }
    outbox_rows {
        ss_31_nonsense_in_any_column_is_a_dead_letter_and_everything_else_goes_on,
        ss_31_times_are_exact_or_refused,
        ss_03_an_outbox_takes_its_own_tables_and_no_others,
    }
    inbox {
        hs_07_the_tables_keep_the_change_that_the_core_calls_newer,
        ss_24_an_entry_takes_effect_once_however_often_it_arrives,
        ss_24_batches_that_arrive_at_once_take_effect_once,
        ss_10_an_older_change_never_overwrites_a_newer_one,
        ss_33_times_are_kept_as_written_and_an_edit_is_later_than_what_it_has_seen,
        ss_09_the_plain_contract_upserts_by_id_and_time,
        ss_10_what_is_edited_here_goes_into_the_outbox_and_what_arrives_does_not,
        ss_10_of_editors_that_saw_the_same_one_changes_it,
        ss_10_a_change_of_our_own_application_is_not_overwritten_by_an_older_one,
        ss_09_entities_are_listed_last_changed_first,
        ss_27_what_breaks_a_bound_of_the_inbox_is_refused_and_nothing_stored,
    }
    schedule_records {
        a_run_ends_once_and_says_how,
        vw_08_a_claimed_run_whose_input_is_unchanged_counts_as_a_skip,
        history_pages_newest_first_and_filters,
        vw_09_totals_are_what_a_recount_of_history_gives,
        runs_of_dead_nodes_are_abandoned_and_those_of_live_ones_are_not,
        a_run_given_up_too_early_can_still_end,
        old_history_is_trimmed_in_steps_and_totals_stay,
    }
    state {
        st_23_what_one_device_sends_another_gets_and_the_same_again_is_no_news,
        st_23_the_later_change_counts_and_clocks_ahead_do_not_win_for_ever,
        st_23_a_reset_takes_everything_before_it,
        st_23_pages_hold_everything_however_much_it_is,
        st_23_a_device_that_missed_forgotten_removals_has_to_ask_first,
        st_23_numbers_are_seen_in_order_whoever_writes,
        st_23_news_is_heard_here_and_elsewhere,
        st_23_what_breaks_a_bound_of_a_space_is_refused,
        st_23_asking_makes_no_space_and_what_was_made_can_be_removed,
        st_23_removals_give_way_to_what_is_there,
    }
    state_entities {
        cn_21_a_server_writes_reads_and_removes_and_devices_hear_of_it,
        cn_21_of_two_writers_with_one_condition_one_is_refused,
        cn_21_a_listing_leads_through_what_is_there_however_much_was_removed,
        cn_21_many_first_writers_of_a_space_all_get_in,
    }
    access {
        ac_13_what_was_begun_is_there_before_it_ended_and_is_settled_once,
        ac_13_pages_lead_through_everything_newest_first_and_filters_hold,
        ac_13_strangers_texts_are_kept_on_one_line_and_cut,
        ac_13_a_page_looks_at_a_bounded_number_of_rows_and_says_where_to_go_on,
        ac_13_what_is_old_is_pruned_in_steps,
        ac_04_a_stored_key_is_listed_until_it_is_removed_and_others_see_the_number_grow,
        ac_04_the_last_use_of_a_key_is_the_latest_that_anybody_reported,
        ac_04_there_is_a_most_of_keys,
        ac_11_what_was_taken_back_is_seen_elsewhere_until_it_ends,
        ac_11_of_two_revocations_of_a_subject_the_later_time_counts,
    }
}

/// The suite above shows nothing unless this pooler does harm where it may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_loses_prepared_statements_is_told_apart_with_a_hint() {
    let (url, _) = conformance::fixture::pooled_database().await;
    let store = match Store::open(&format!("{url}?statement-cache-capacity=100")).await {
        Ok(store) => store,
        Err(refused) => return assert!(matches!(refused, Error::Pooler { .. }), "{refused}"),
    };
    let kv = store.kv();
    for n in 0..100 {
        let key = conformance::fixture::key(&format!("k:{n}"));
        if let Err(error @ Error::Pooler { .. }) = kv.put_new(&key, "v", None).await {
            assert!(error.hint().unwrap().contains("statement-cache-capacity=0"));
            return;
        }
    }
    panic!("a hundred prepared statements survived the pooler");
}
