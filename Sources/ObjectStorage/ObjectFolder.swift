import StoreCrypto
import StorePlatform

/// Objects in a folder: on a disk, a stick, a network share, or a folder that another program synchronizes.
///
/// An object is written under a temporary name, synced, and linked to its name, so nobody sees a part of it. Only a
/// program that copies the folder can leave a part of an object; the hash in the name shows it.
package struct ObjectFolder: ObjectStore {
    private static let temporary = "tmp"

    private let root: String
    private let subfolder: String?
    private let kinds: [String]
    private let nameLimit: Int
    private let isName: @Sendable (String) -> Bool

    /// - Parameters:
    ///   - path: An existing folder.
    ///   - subfolder: The folder in it that holds the objects, which the first object creates; nil for the folder itself.
    ///   - kinds: The first parts of all names, before the slash: each has a folder.
    ///   - nameLimit: The most names of a kind.
    ///   - isName: Whether a text is the name of an object: a kind, a slash, and a plain name of a file.
    package init(
        path: String, subfolder: String?, kinds: [String], nameLimit: Int, isName: @escaping @Sendable (String) -> Bool
    ) {
        root = path
        self.subfolder = subfolder
        self.kinds = kinds
        self.nameLimit = nameLimit
        self.isName = isName
    }

    package var description: String { root }

    package func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        let (kind, fileName) = try divided(name)
        let own = try madeOwnFolder()
        let folder = try Self.makeFolder(kind, in: own)
        if try folder.status(of: fileName) != nil { return .alreadyPresent }
        let uploads = try Self.makeFolder(Self.temporary, in: own)
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
        try read(name) { file throws(SystemError) in
            try file.read(at: 0, byteCount: min(file.status().byteCount, limitBytes + 1))
        }
    }

    /// Reads a part of an object.
    ///
    /// - Returns: Fewer bytes where the object ends before; nil if there is no such object.
    package func read(_ name: String, at offset: Int, byteCount: Int) throws -> [UInt8]? {
        try read(name) { file throws(SystemError) in try file.read(at: offset, byteCount: byteCount) }
    }

    private func read(_ name: String, _ body: (OpenFile) throws(SystemError) -> [UInt8]) throws -> [UInt8]? {
        let (kind, fileName) = try divided(name)
        guard let folder = try ownFolder()?.folder(kind) else { return nil }
        guard let file = try folder.file(fileName) else {
            // A folder, link or pipe in the place of an object is damage: its bytes are not those of the name.
            return try folder.status(of: fileName) == nil ? nil : []
        }
        return try body(file)
    }

    package func list(_ prefix: String) throws -> [ListedObject] {
        guard let own = try ownFolder() else { return [] }
        var found: [ListedObject] = []
        for kind in kinds where (kind + "/").hasPrefix(prefix) || prefix.hasPrefix(kind + "/") {
            guard let folder = try own.folder(kind) else { continue }
            for file in try folder.names(limit: nameLimit) {
                let whole = kind + "/" + file
                guard whole.hasPrefix(prefix) else { continue }
                found.append(ListedObject(name: whole, byteCount: nil))
            }
        }
        return found
    }

    package func delete(_ name: String) throws {
        let (kind, fileName) = try divided(name)
        guard let folder = try ownFolder()?.folder(kind), try folder.status(of: fileName) != nil else { return }
        try folder.remove(fileName)
        try folder.synchronize()
    }

    /// Removes several objects, and syncs each folder once.
    package func delete(_ names: [String]) throws {
        guard let own = try ownFolder() else { return }
        for (kind, files) in Dictionary(grouping: try names.map(divided), by: \.kind) {
            guard let folder = try own.folder(kind) else { continue }
            for file in files { try folder.remove(file.file) }
            try folder.synchronize()
        }
    }

    /// Removes the files of uploads that were killed. No upload may be running.
    ///
    /// - Returns: How many there were.
    package func removeUploads() throws -> Int {
        guard let uploads = try ownFolder()?.folder(Self.temporary) else { return 0 }
        let names = try uploads.names(limit: nameLimit)
        for name in names { try uploads.remove(name) }
        return names.count
    }

    private func ownFolder() throws(SystemError) -> OpenFolder? {
        let folder = try OpenFolder(opening: root)
        guard let subfolder else { return folder }
        return try folder.folder(subfolder)
    }

    private func madeOwnFolder() throws(SystemError) -> OpenFolder {
        let folder = try OpenFolder(opening: root)
        guard let subfolder else { return folder }
        return try Self.makeFolder(subfolder, in: folder)
    }

    /// Opens a folder, and creates it durably where it is missing.
    private static func makeFolder(_ name: String, in parent: OpenFolder) throws(SystemError) -> OpenFolder {
        if let found = try parent.folder(name) { return found }
        try parent.makeFolder(name)
        try parent.synchronize()
        guard let made = try parent.folder(name) else {
            throw SystemError.notFound("openat", parent.path + "/" + name)
        }
        return made
    }

    /// The folder and the file of a name; each is plain, so no name leads out of the folder.
    private func divided(_ name: String) throws -> (kind: String, file: String) {
        guard isName(name), let slash = name.firstIndex(of: "/") else { throw RemoteNameError(name: name) }
        return (String(name[..<slash]), String(name[name.index(after: slash)...]))
    }

    private static func hexadecimal(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16) }
}

/// A name that no object has.
package struct RemoteNameError: Error, Hashable, Sendable, CustomStringConvertible {
    let name: String

    package var description: String { "The name \"\(name)\" is no name of an object. This is an error of the program." }
}
