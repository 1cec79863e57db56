//! Which parts a node of this program can have: the systems of the platform, and the apps. The only place that lists them.

use syncline_bookshelf::BookshelfPart;
use syncline_calls::CallsPart;
use syncline_gallery::GalleryPart;
use syncline_node::part::Part;

/// All of them; the configuration says which are on.
pub(crate) fn all() -> Vec<Box<dyn Part>> {
    let apps: [Box<dyn Part>; 3] =
        [Box::new(BookshelfPart::default()), Box::new(CallsPart::default()), Box::new(GalleryPart)];
    syncline_node::systems().into_iter().chain(apps).collect()
}
