// Why a storage did not do what it was asked for: `quota` (it is full), `gone` (this context is cut off from it for good),
// `overtaken` (somebody wrote since it was read; nothing was done), `other` (trying again may help).

export class StorageFailure extends Error {
  constructor(kind, cause) {
    super(cause?.message ?? `storage failed: ${kind}`, { cause });
    this.name = "StorageFailure";
    this.kind = kind;
  }
}
