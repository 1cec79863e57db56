//! The parts of a node under test.

use syncline_bookshelf::BookshelfPart;
use syncline_calls::CallsPart;
use syncline_gallery::GalleryPart;
use syncline_node::part::Part;

/// The systems of the platform and the apps.
pub(crate) fn all() -> Vec<Box<dyn Part>> {
    let apps: [Box<dyn Part>; 3] =
        [Box::new(BookshelfPart::default()), Box::new(CallsPart::default()), Box::new(GalleryPart)];
    syncline_node::systems().into_iter().chain(apps).collect()
}

/// All apps as a flag says it, unless the file says otherwise.
pub(crate) fn apps(file: &str) -> Option<String> {
    (!file.contains("apps = ")).then(|| "bookshelf,calls,gallery".to_owned())
}
