//! Files beneath a folder, links in their places, and files that changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::super::kind::{Attachment, ReceiptRule};
use super::*;

const PHOTO: &str = "photo.jpg";
const META: &str = "meta.json";

fn template(text: &str) -> Template {
    Template::parse(text).unwrap()
}

/// Photos in a folder each, with a description beside them.
fn photos(root: &Path) -> FileKind {
    let file = template("{path:folder|album|photoId}/photo.jpg");
    let mut kind = FileKind::new("photo_file", root.to_owned(), file, "/api/photos");
    kind.id = template("{photoId|entityId}");
    kind.fields = BTreeMap::from([("photoId".to_owned(), template("{photoId}"))]);
    kind.attachments = vec![Attachment {
        part: "meta".to_owned(),
        file: template("{path:folder|album|photoId}/meta.json"),
        content_type: "application/json".to_owned(),
    }];
    kind.receipt = Some(ReceiptRule {
        table: "photos".to_owned(),
        id_column: "id".to_owned(),
        set: BTreeMap::from([
            ("url".to_owned(), template("{fileUrl}")),
            ("bytes".to_owned(), template("{length}")),
        ]),
    });
    kind.after_receipt = AfterReceipt::RemoveFolder;
    kind
}

fn read(kind: FileKind, payload: &str) -> Result<UploadJob, Unsendable> {
    UploadJob::read(&Arc::new(kind), "e1", payload)
}

/// A folder outside, a folder of photos with the folder `p1`, and the job to send that.
fn world() -> (tempfile::TempDir, UploadJob) {
    let place = tempfile::tempdir().unwrap();
    for folder in ["outside", "root/p1"] {
        fs::create_dir_all(place.path().join(folder)).unwrap();
        fs::write(place.path().join(folder).join(PHOTO), "light").unwrap();
        fs::write(place.path().join(folder).join(META), "{}").unwrap();
    }
    let job = read(photos(&place.path().join("root")), r#"{"photoId":"p1"}"#).unwrap();
    (place, job)
}

#[test]
fn ss_36_ss_27_values_that_are_no_names_are_refused() {
    for payload in [
        "not json",
        "[]",
        r#"{"album":"a"}"#,
        r#"{"photoId":"../p1"}"#,
        r#"{"photoId":""}"#,
        r#"{"photoId":"p1","album":".."}"#,
        r#"{"photoId":"p1","album":".incoming"}"#,
        r#"{"photoId":"p1","path":"/etc/passwd"}"#,
        r#"{"photoId":"p1","path":"../../p2/photo.jpg"}"#,
    ] {
        let read = read(photos(Path::new("root")), payload);
        assert!(matches!(read, Err(Unsendable::Refused(_))), "{payload}");
    }
    let job =
        read(photos(Path::new("root")), r#"{"photoId":"p1","album":"a84b4c76@pc33.example.com"}"#).unwrap();
    assert_eq!(job.path, ["a84b4c76@pc33.example.com", PHOTO]);
    let job = read(photos(Path::new("root")), r#"{"photoId":"p1","path":"/srv/shop/p7/photo.jpg"}"#).unwrap();
    assert_eq!(
        (job.path, job.attachments),
        (vec!["p7".to_owned(), PHOTO.to_owned()], vec![vec!["p7".to_owned(), META.to_owned()]])
    );
}

#[test]
fn ss_36_a_receipt_sets_columns_from_the_answer_and_the_payload() {
    let (_place, job) = world();
    let columns = job.receipt_columns("https://f.example/1", 5, "ab").unwrap().unwrap();
    let expected =
        [("bytes", "5"), ("url", "https://f.example/1")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(columns, expected);
}

#[test]
fn ss_28_links_in_place_of_a_folder_or_file_are_refused_and_what_they_point_to_stays() {
    let (place, job) = world();
    let root = place.path().join("root");
    let is_refused = || {
        assert!(matches!(job.open(), Err(Unsendable::Refused(_))), "{:?}", job.open());
        assert!(job.clean_up(None).is_err());
    };
    fs::remove_file(root.join("p1/photo.jpg")).unwrap();
    symlink(place.path().join("outside/photo.jpg"), root.join("p1/photo.jpg")).unwrap();
    is_refused();
    fs::remove_dir_all(root.join("p1")).unwrap();
    symlink(place.path().join("outside"), root.join("p1")).unwrap();
    is_refused();
    assert_eq!(fs::read_to_string(place.path().join("outside/photo.jpg")).unwrap(), "light");
}

#[test]
fn ss_28_a_folder_is_removed_only_while_its_file_is_the_one_that_was_sent() {
    let (place, job) = world();
    let root = place.path().join("root");
    let open = job.open().unwrap();
    assert_eq!((open.identity.length, open.attachments[0].content.as_slice()), (5, &b"{}"[..]));
    fs::write(root.join("p1/photo.jpg"), "other light").unwrap();
    let changed = job.clean_up(Some(open.identity)).unwrap_err().to_string();
    assert!(changed.contains("changed while it was sent"), "{changed}");
    assert!(root.join("p1/photo.jpg").exists());
    let sent = job.open().unwrap().identity;
    job.clean_up(Some(sent)).unwrap();
    assert!(!root.join("p1").exists() && root.exists());
    job.clean_up(Some(sent)).unwrap();
    assert!(matches!(job.open(), Err(Unsendable::Gone(_))));
}

#[test]
fn ss_36_a_kind_keeps_its_files_or_removes_them_alone() {
    for (after_receipt, photo_stays, folder_stays) in
        [(AfterReceipt::Keep, true, true), (AfterReceipt::RemoveFile, false, true)]
    {
        let (place, job) = world();
        let root = place.path().join("root");
        let kind = FileKind { after_receipt, ..photos(&root) };
        fs::write(root.join("p1/neighbour"), "stays").unwrap();
        let job = UploadJob { kind: Arc::new(kind), ..job };
        job.clean_up(Some(job.open().unwrap().identity)).unwrap();
        assert_eq!(root.join("p1/photo.jpg").exists(), photo_stays);
        assert_eq!(root.join("p1/meta.json").exists(), photo_stays, "an attachment goes with its file");
        assert_eq!(root.join("p1/neighbour").exists(), folder_stays);
    }
}

#[test]
fn ss_27_an_attachment_that_claims_to_be_json_is_json_within_bounds() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for good in ["{}", "[1]", nested(DEPTH_MAX).as_str()] {
        check_attachment(good.as_bytes(), "application/json").unwrap();
    }
    let long = format!("\"{}\"", "x".repeat(ATTACHMENT_MAX_BYTES));
    for bad in ["", "{", nested(DEPTH_MAX + 1).as_str(), &long] {
        assert!(check_attachment(bad.as_bytes(), "application/json").is_err(), "{bad:.40}");
    }
    assert_eq!(check_attachment(b"{\"name\":\"\x8c\xc4\"}", "application/json").unwrap_err(), "is not UTF-8");
    check_attachment(b"\x8c\xc4", "text/plain").unwrap();
}

#[test]
fn ss_28_a_folder_of_a_kind_that_is_not_there_is_told_apart_and_not_made() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("unmounted");
    let job = read(photos(&root), r#"{"photoId":"p1"}"#).unwrap();
    assert!(matches!(job.open(), Err(Unsendable::NoFolder(_))));
    assert!(matches!(job.open_again(), Err(Unsendable::NoFolder(_))));
    assert!(matches!(job.clean_up(None), Err(Unsendable::NoFolder(_))));
    let said = job.open().unwrap_err().to_string();
    assert!(said.contains("`folder` of photo_file") && !root.exists(), "{said}");
}
