import StorePlatform

/// The calls that a directory remote makes, by plain names in an open folder. Tests let them fail and end.
protocol RemoteFolder: Sendable {
    var path: String { get }
    /// Identifies the folder, whatever its name.
    func identity() throws(SystemError) -> FileIdentity
    /// Opens a folder in it; nil when there is none. `ENOTDIR` for anything else of that name.
    func folder(_ name: String) throws(SystemError) -> (any RemoteFolder)?
    /// Creates a folder, or keeps what is there; not durable.
    func makeFolder(_ name: String) throws(SystemError)
    func names(limit: Int) throws(SystemError) -> [String]
    /// The kind of a name and the time of its last change; nil when there is none.
    func status(of name: String) throws(SystemError) -> (kind: FileKind, modified: Duration)?
    /// Reads a regular file, `limitBytes` at most; nil when there is none.
    func read(_ name: String, limitBytes: Int) throws(SystemError) -> [UInt8]?
    /// Creates a file whose content is durable; the name is not.
    func createFile(_ name: String, _ bytes: [UInt8]) throws(SystemError)
    /// Syncs the content of a file that somebody else may have written.
    func synchronize(file name: String) throws(SystemError)
    func link(_ name: String, to folder: any RemoteFolder, _ newName: String) throws(SystemError)
    func renameExclusively(_ name: String, to folder: any RemoteFolder, _ newName: String) throws(SystemError)
    func rename(_ name: String, to folder: any RemoteFolder, _ newName: String) throws(SystemError)
    func remove(_ name: String) throws(SystemError)
    /// Syncs the names in the folder.
    func synchronize() throws(SystemError)
}

/// A folder of a filesystem.
struct SystemFolder: RemoteFolder {
    let folder: OpenFolder

    var path: String { folder.path }

    init(opening path: String) throws(SystemError) { folder = try OpenFolder(opening: path) }

    private init(_ folder: OpenFolder) { self.folder = folder }

    func identity() throws(SystemError) -> FileIdentity { try folder.status().identity }

    func folder(_ name: String) throws(SystemError) -> (any RemoteFolder)? {
        guard let found = try folder.folder(name) else { return nil }
        return SystemFolder(found)
    }

    func makeFolder(_ name: String) throws(SystemError) { try folder.makeFolder(name) }

    func names(limit: Int) throws(SystemError) -> [String] { try folder.names(limit: limit) }

    func status(of name: String) throws(SystemError) -> (kind: FileKind, modified: Duration)? {
        guard let found = try folder.status(of: name) else { return nil }
        return (found.kind, found.modified)
    }

    func read(_ name: String, limitBytes: Int) throws(SystemError) -> [UInt8]? {
        guard let file = try folder.file(name) else { return nil }
        // By its length: a buffer of the limit would take half a megabyte for each small object.
        return try file.read(at: 0, byteCount: min(file.status().byteCount, limitBytes))
    }

    func createFile(_ name: String, _ bytes: [UInt8]) throws(SystemError) { try folder.createFile(name, bytes) }

    func synchronize(file name: String) throws(SystemError) { try folder.file(name)?.synchronize() }

    func link(_ name: String, to other: any RemoteFolder, _ newName: String) throws(SystemError) {
        try folder.link(name, to: Self.same(other), newName)
    }

    func renameExclusively(_ name: String, to other: any RemoteFolder, _ newName: String) throws(SystemError) {
        try folder.renameExclusively(name, to: Self.same(other), newName)
    }

    func rename(_ name: String, to other: any RemoteFolder, _ newName: String) throws(SystemError) {
        try folder.rename(name, to: Self.same(other), newName)
    }

    func remove(_ name: String) throws(SystemError) { try folder.remove(name) }

    func synchronize() throws(SystemError) { try folder.synchronize() }

    private static func same(_ other: any RemoteFolder) throws(SystemError) -> OpenFolder {
        guard let other = other as? SystemFolder else {
            throw SystemError.inputOutput("linkat", other.path)
        }
        return other.folder
    }
}
