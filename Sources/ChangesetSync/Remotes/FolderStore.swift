import StoreCrypto
import StorePlatform

/// A remote in a folder: on a disk, a stick, a network share, or a folder that another program synchronizes.
///
/// An object is written under a temporary name, synced, and linked to its name, so nobody sees a part of it. Only a
/// program that copies the folder can leave a part of an object; the hash in the name shows it.
package struct FolderStore: ObjectStore {
    private static let folders = ["c", "m", "p", "s", "x"]
    private static let temporary = "tmp"

    private let root: String
    private let repository: RepositoryID

    /// - Parameter path: An existing folder. The objects of each repository have a folder of their own in it.
    package init(path: String, repository: RepositoryID) {
        root = path
        self.repository = repository
    }

    package var description: String { root }

    package func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        let (folderName, fileName) = try Self.divided(name)
        let own = try makeFolder(repository.description, in: OpenFolder(opening: root))
        let folder = try makeFolder(folderName, in: own)
        if try folder.status(of: fileName) != nil { return .alreadyPresent }
        let uploads = try makeFolder(Self.temporary, in: own)
        let upload = try SystemRandom.bytes(16).reduce(into: "") { $0 += Self.hexadecimal($1) }
        try uploads.createFile(upload, bytes)
        do throws(SystemError) {
            // It keeps the temporary name too where the filesystem has hard links.
            defer { try? uploads.remove(upload) }
            try uploads.place(upload, in: folder, fileName)
        } catch {
            if error.isAlreadyThere { return .alreadyPresent }
            throw error
        }
        try folder.synchronize()
        return .stored
    }

    package func get(_ name: String, limitBytes: Int) throws -> [UInt8]? {
        let (folderName, fileName) = try Self.divided(name)
        guard let folder = try ownFolder()?.folder(folderName) else { return nil }
        guard let file = try folder.file(fileName) else {
            // A folder, link or pipe in the place of an object is damage: its bytes are not those of the name.
            return try folder.status(of: fileName) == nil ? nil : []
        }
        return try file.read(at: 0, byteCount: min(file.status().byteCount, limitBytes + 1))
    }

    package func list(_ prefix: String) throws -> [ListedObject] {
        guard let own = try ownFolder() else { return [] }
        var found: [ListedObject] = []
        for name in Self.folders where (name + "/").hasPrefix(prefix) || prefix.hasPrefix(name + "/") {
            guard let folder = try own.folder(name) else { continue }
            for file in try folder.names(limit: ExchangeLimits.listedObjects) {
                let whole = name + "/" + file
                guard whole.hasPrefix(prefix) else { continue }
                found.append(ListedObject(name: whole, byteCount: nil))
            }
        }
        return found
    }

    package func delete(_ name: String) throws {
        let (folderName, fileName) = try Self.divided(name)
        guard let folder = try ownFolder()?.folder(folderName), try folder.status(of: fileName) != nil else { return }
        try folder.remove(fileName)
        try folder.synchronize()
    }

    private func ownFolder() throws(SystemError) -> OpenFolder? {
        try OpenFolder(opening: root).folder(repository.description)
    }

    /// Opens a folder, and creates it durably where it is missing.
    private func makeFolder(_ name: String, in parent: OpenFolder) throws(SystemError) -> OpenFolder {
        if let found = try parent.folder(name) { return found }
        try parent.makeFolder(name)
        try parent.synchronize()
        guard let made = try parent.folder(name) else {
            throw SystemError.notFound("openat", parent.path + "/" + name)
        }
        return made
    }

    /// The folder and the file of a name; each is plain, so no name leads out of the folder.
    private static func divided(_ name: String) throws -> (folder: String, file: String) {
        guard let parsed = ObjectName(name) else { throw RemoteNameError(name: name) }
        return (String(parsed.text.prefix(1)), String(parsed.text.dropFirst(2)))
    }

    private static func hexadecimal(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16) }
}

/// A name that no object has.
struct RemoteNameError: Error, Hashable, Sendable, CustomStringConvertible {
    let name: String

    package var description: String { "The name \"\(name)\" is no name of an object. This is an error of the program." }
}
