-- Pictures move from the users' keys to the gallery's own, where nobody else can write.
UPDATE syncline.kv SET key = char(1) || 'gallery' || char(1) || key
WHERE (key >= 'picture:' AND key < 'picture;') OR (key >= 'picture-file:' AND key < 'picture-file;') OR key = 'last_snapshot';
