@_exported import ObjectStorage
import CipherStore
import StorePlatform

/// A remote in a folder; the objects of each repository have a folder of their own in it.
///
/// Each call refuses a path with a symbolic link of another user in it (`StoreError` `storeName`).
package struct FolderStore: ObjectStore {
    private let objects: ObjectFolder

    /// - Parameter path: An existing folder.
    package init(path: String, repository: RepositoryID) {
        objects = ObjectFolder(
            path: path, verifyPath: { try OtherUserLink.refuse(Files.absolute($0)) }, subfolder: repository.description,
            kinds: ["c", "m", "p", "s", "x"],
            nameLimit: ExchangeLimits.listedObjects, isName: { ObjectName($0)?.text == $0 })
    }

    package var description: String { objects.description }

    package func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome { try objects.put(name, bytes) }

    /// An object that another user keeps from being read is damaged: it must not end an exchange.
    package func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        try objects.requireName(name)
        return try objects.getWithStatus(name, limitBytes: limitBytes).map { $0.bytes ?? [] }
    }

    package func list(_ prefix: String) throws -> [ListedObject] { try objects.list(prefix) }

    package func delete(_ name: String) throws { try objects.delete(name) }
}
