//! Recordings of calls as a kind of file: a folder for each call, with the sound and its description.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use syncline_node::outbox::{AfterReceipt, Attachment, FileKind, ReceiptRule, Template};

/// The type of the entries that stand for recordings.
pub const ENTITY_TYPE: &str = "recording_file";

/// The variable that names their folder.
pub const VARIABLE: &str = "RECORDINGS_DIR";
/// Their folder where nobody names one.
pub const USUAL_FOLDER: &str = "storage/recordings";
/// Both, as a line in the help of a program that sends recordings.
pub const VARIABLE_HELP: &str = "  RECORDINGS_DIR                storage/recordings: a folder for each call";

/// Recordings beneath the folder that `environment` names, or the usual one. An empty variable names none.
pub fn from_environment(environment: &dyn Fn(&str) -> Option<OsString>) -> FileKind {
    let folder = environment(VARIABLE).filter(|folder| !folder.is_empty());
    recordings(folder.map_or_else(|| PathBuf::from(USUAL_FOLDER), PathBuf::from))
}

/// Recordings beneath `dir`. A payload says `callLogId`, and where they differ from it `recordingId` and the folder as
/// `callId` or as the end of `filePath`; all of them also with underscores.
pub fn recordings(dir: PathBuf) -> FileKind {
    let template = |text: &str| Template::parse(text).expect("a constant that reads");
    let folder = "{filePath:folder|file_path:folder|callId|call_id|callLogId|call_log_id}";
    let recording = "{recordingId|recording_id|entityId}";
    let text = str::to_owned;
    FileKind {
        folder_variable: Some(VARIABLE),
        id: template(recording),
        part: text("audio"),
        fields: BTreeMap::from([
            (text("callLogId"), template("{callLogId|call_log_id}")),
            (text("recordingId"), template(recording)),
        ]),
        attachments: vec![Attachment {
            part: text("meta"),
            file: template(&format!("{folder}/meta.json")),
            content_type: text("application/json"),
        }],
        receipt: Some(ReceiptRule {
            table: text("recordings"),
            id_column: text("id"),
            set: BTreeMap::from([
                (text("upload_status"), template("uploaded")),
                (text("s3_url"), template("{fileUrl}")),
            ]),
        }),
        after_receipt: AfterReceipt::RemoveFolder,
        ..FileKind::new(
            ENTITY_TYPE,
            dir,
            template(&format!("{folder}/mixed.wav")),
            "/api/ingest/recording-file",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ss_07_ss_36_a_payload_names_call_recording_and_folder_in_either_spelling() {
        let kind = recordings(PathBuf::from("r"));
        kind.check().unwrap();
        let table = [
            (r#"{"callLogId":"c1","recordingId":"r1"}"#, ("c1", "r1", "c1")),
            (r#"{"call_log_id":"c1","recording_id":"r1","more":1}"#, ("c1", "r1", "c1")),
            (r#"{"callLogId":"c1"}"#, ("c1", "rec-1", "c1")),
            (r#"{"callLogId":"c1","callId":"sip-7"}"#, ("c1", "rec-1", "sip-7")),
            (
                r#"{"callLogId":"c1","callId":"a84b4c76@pc33.example.com"}"#,
                ("c1", "rec-1", "a84b4c76@pc33.example.com"),
            ),
            (
                r#"{"callLogId":"c1","filePath":"storage/recordings/sip-7/mixed.wav"}"#,
                ("c1", "rec-1", "sip-7"),
            ),
            (r#"{"callLogId":"c1","file_path":"/var/lib/box/sip-7/mixed.wav"}"#, ("c1", "rec-1", "sip-7")),
        ];
        for (payload, (call, recording, folder)) in table {
            let named = kind.named_file("rec-1", payload).unwrap();
            assert_eq!(named.path, PathBuf::from(folder).join("mixed.wav"), "{payload}");
            assert_eq!((named.id.as_str(), named.fields["recordingId"].as_str()), (recording, recording));
            assert_eq!(named.fields["callLogId"], call);
        }
    }

    #[test]
    fn ss_07_the_environment_names_the_folder_and_the_help_says_so() {
        let folder = |value: &'static str| from_environment(&|_| Some(OsString::from(value))).folder;
        assert_eq!(folder("elsewhere"), PathBuf::from("elsewhere"));
        assert_eq!(folder(""), PathBuf::from(USUAL_FOLDER));
        assert_eq!(from_environment(&|_| None).folder, PathBuf::from(USUAL_FOLDER));
        assert!(VARIABLE_HELP.contains(VARIABLE) && VARIABLE_HELP.contains(USUAL_FOLDER));
    }

    #[test]
    fn ss_27_ids_and_paths_that_lead_elsewhere_are_refused() {
        let kind = recordings(PathBuf::from("r"));
        for payload in [
            "not json",
            r#"{"recordingId":"r1"}"#,
            r#"{"callLogId":"../c1"}"#,
            r#"{"callLogId":""}"#,
            r#"{"callLogId":"c1","callId":".."}"#,
            r#"{"callLogId":"c1","filePath":"/etc/passwd"}"#,
            r#"{"callLogId":"c1","filePath":"../../c2/mixed.wav"}"#,
            r#"{"callLogId":"c1","filePath":"storage/../../etc/mixed.wav"}"#,
            r#"{"callLogId":"c1","filePath":"mixed.wav"}"#,
            r#"{"callLogId":"c1","filePath":"/mixed.wav"}"#,
        ] {
            assert!(kind.named_file("rec-1", payload).is_err(), "{payload}");
        }
    }
}
