import StoreCrypto
import StorePlatform

/// Objects in a folder: on a disk, a stick, a network share, or a folder that another program synchronizes.
///
/// An object is written under a temporary name, synced, and linked to its name, so nobody sees a part of it. Only a
/// program that copies the folder can leave a part of an object; the hash in the name shows it.
///
/// Objects and folders are their owner's alone, or a group's too: ``ObjectPermissions``.
package struct ObjectFolder: ObjectStore {
    private static let temporary = "tmp"

    private let root: String
    private let identity: FileIdentity?
    private let verifyPath: @Sendable (String) throws -> Void
    private let subfolder: String?
    private let kinds: [String]
    private let nameLimit: Int
    private let isName: @Sendable (String) -> Bool
    private let leaseWaits = LeaseWaits()

    /// - Parameters:
    ///   - path: An existing folder.
    ///   - identity: The folder that the path has led to. Another one is refused, because another user may exchange the
    ///     path for a link at any moment. nil accepts each.
    ///   - verifyPath: Throws where the path leads through a link that must not be followed; called at each opening.
    ///   - subfolder: The folder in it that holds the objects, which the first object creates; nil for the folder itself.
    ///   - kinds: The first parts of all names, before the slash: each has a folder.
    ///   - nameLimit: The most names of a kind.
    ///   - isName: Whether a text is the name of an object: a kind, a slash, and a plain name of a file.
    package init(
        path: String, identity: FileIdentity? = nil,
        verifyPath: @escaping @Sendable (String) throws -> Void = { _ in }, subfolder: String?, kinds: [String],
        nameLimit: Int, isName: @escaping @Sendable (String) -> Bool
    ) {
        root = path
        self.identity = identity
        self.verifyPath = verifyPath
        self.subfolder = subfolder
        self.kinds = kinds
        self.nameLimit = nameLimit
        self.isName = isName
    }

    package var description: String { root }

    package func put(_ name: String, _ bytes: [UInt8]) throws -> PutOutcome {
        let (kind, fileName) = try divided(name)
        let root = try openRoot()
        let permissions = ObjectPermissions(in: try root.status())
        let own = try subfolder.map { try Self.makeFolder($0, in: root, permissions) } ?? root
        let folder = try Self.makeFolder(kind, in: own, permissions)
        if try folder.status(of: fileName) != nil { return .alreadyPresent }
        let uploads = try Self.makeFolder(Self.temporary, in: own, permissions)
        let upload = try SystemRandom.bytes(16).reduce(into: "") { $0 += Self.hexadecimal($1) }
        try uploads.createFile(upload, bytes, sharedAs: permissions.object)
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
        guard let file = try leaseWaits.file(fileName, in: folder) else {
            // A folder, link or pipe in the place of an object is damage: its bytes are not those of the name.
            return try folder.status(of: fileName) == nil ? nil : []
        }
        return try body(file)
    }

    /// Reads an object with the status of its file.
    ///
    /// Both are of one open file: another user may give the name to another file meanwhile. No link is followed.
    ///
    /// - Parameters:
    ///   - name: Any name that ``list(_:)`` returns, also one that no object has.
    ///   - limitBytes: Longer objects are returned up to this length and one byte more.
    /// - Returns: nil if there is no such object. The bytes are nil if this user may not read them.
    package func getWithStatus(_ name: String, limitBytes: Int) throws -> FoundObject? {
        guard let kind = kinds.first(where: { name.hasPrefix($0 + "/") }) else { throw RemoteNameError(name: name) }
        let fileName = String(name.dropFirst(kind.count + 1))
        guard let folder = try ownFolder()?.folder(kind) else { return nil }
        var isReadable = true
        do throws(SystemError) {
            if let file = try leaseWaits.file(fileName, in: folder) {
                let status = try file.status()
                let bytes = try file.read(at: 0, byteCount: min(status.byteCount, limitBytes + 1))
                return FoundObject(bytes: bytes, status: status)
            }
        } catch {
            // Its owner may refuse it by the mode, or by a lease of the system (fcntl F_SETLEASE).
            guard error.isPermission || error.isLeased else { throw error }
            isReadable = false
        }
        guard let status = try folder.status(of: fileName) else { return nil }
        return FoundObject(bytes: isReadable ? [] : nil, status: status)
    }

    /// Opens the folder, which must be the one that the path has led to.
    package func openRoot() throws -> OpenFolder {
        try verifyPath(root)
        let folder = try OpenFolder(opening: root)
        // A link may have been there only while the folder was opened.
        try verifyPath(root)
        guard let identity else { return folder }
        guard try folder.status().identity == identity else { throw SystemError.exchanged("open", root) }
        return folder
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

    /// Removes the files of uploads that were killed. No upload may be running. An entry that another user has put there
    /// stays if this user cannot remove it, as a folder.
    ///
    /// - Returns: How many were removed.
    package func removeUploads() throws -> Int {
        guard let uploads = try ownFolder()?.folder(Self.temporary) else { return 0 }
        var count = 0
        for name in try uploads.names(limit: nameLimit) {
            do throws(SystemError) {
                try uploads.remove(name)
                count += 1
            } catch {
                // A killed upload of this user is a file that this user may remove.
                guard error.isPermission || error.isDirectory else { throw error }
            }
        }
        return count
    }

    private func ownFolder() throws -> OpenFolder? {
        let folder = try openRoot()
        guard let subfolder else { return folder }
        return try folder.folder(subfolder)
    }

    /// Opens a folder, and creates it durably where it is missing.
    private static func makeFolder(
        _ name: String, in parent: OpenFolder, _ permissions: ObjectPermissions
    ) throws(SystemError) -> OpenFolder {
        if let found = try parent.folder(name) { return found }
        try parent.makeFolder(name, sharedAs: permissions.folder)
        try parent.synchronize()
        guard let made = try parent.folder(name) else {
            throw SystemError.notFound("openat", parent.path + "/" + name)
        }
        return made
    }

    /// - Throws: ``RemoteNameError``.
    package func requireName(_ name: String) throws { _ = try divided(name) }

    /// The folder and the file of a name; each is plain, so no name leads out of the folder.
    private func divided(_ name: String) throws -> (kind: String, file: String) {
        guard isName(name), let slash = name.firstIndex(of: "/") else { throw RemoteNameError(name: name) }
        return (String(name[..<slash]), String(name[name.index(after: slash)...]))
    }

    private static func hexadecimal(_ byte: UInt8) -> String { (byte < 16 ? "0" : "") + String(byte, radix: 16) }
}

/// An object with the status of its file.
package struct FoundObject: Sendable {
    /// nil if this user may not read them.
    package let bytes: [UInt8]?
    package let status: FileStatus
}

/// A name that no object has.
package struct RemoteNameError: Error, Hashable, Sendable, CustomStringConvertible {
    let name: String

    package var description: String { "The name \"\(name)\" is no name of an object. This is an error of the program." }
}
