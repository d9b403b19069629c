import StoreCrypto
import StorePlatform
import Synchronization

/// The names in the folder of a directory remote (Docs/Formats/Envelope.md). Names of any other form are ignored.
enum DirectoryLayout {
    static let objects = "objects"
    static let log = "log"
    static let acknowledgements = "ack"
    static let temporary = "tmp"
    static let format = "format"
    /// The content of the file ``format``.
    static let version = "cipherstore-remote 1"
    static let formatBytes = 64
    /// An identifier and the end of the line.
    static let entryBytes = 2 * ObjectID.byteCount + 1

    static func shard(of id: ObjectID) -> String { String(id.description.prefix(2)) }

    static func entry(_ id: ObjectID) -> [UInt8] { Array((id.description + "\n").utf8) }

    /// The identifier of an entry; nil unless it is a whole one.
    static func id(ofEntry bytes: [UInt8]) -> ObjectID? {
        guard bytes.count == entryBytes, bytes.last == UInt8(ascii: "\n") else { return nil }
        return ObjectID(String(decoding: bytes.dropLast(), as: UTF8.self))
    }

    /// 32 hexadecimal digits, different in every process.
    static func newTemporaryName() throws(CryptoError) -> String {
        try FixedBytes<SIMD2<UInt64>> { (output) throws(CryptoError) in try SystemRandom.fill(output) }.text
    }

    static func isTemporary(_ name: String) -> Bool { AuthorPseudonym(name) != nil }
}

/// The open folders of one repository at a directory remote, for one call.
struct DirectoryFolders {
    /// The name of the remote, for errors.
    let remote: String
    let repository: any RemoteFolder
    /// What is durable already, so that it is synced once.
    private let durable: DurableFolders

    /// Opens the folder of the repository.
    ///
    /// - Returns: nil while there is none.
    static func open(
        in root: any RemoteFolder, _ repository: RepositoryID, remote: String, durable: DurableFolders
    ) throws -> DirectoryFolders? {
        guard let own = try subfolder(root, repository.description, remote) else { return nil }
        let folders = DirectoryFolders(remote: remote, repository: own, durable: durable)
        try folders.checkFormat()
        return folders
    }

    /// Opens the folder of the repository, and creates what is missing of it.
    static func make(
        in root: any RemoteFolder, _ repository: RepositoryID, remote: String, durable: DurableFolders
    ) throws -> DirectoryFolders {
        let own = try durable.make(repository.description, in: root, remote)
        let folders = DirectoryFolders(remote: remote, repository: own, durable: durable)
        try folders.checkFormat()
        return folders
    }

    /// Opens a folder of the repository; nil when there is none.
    func folder(_ name: String, in parent: (any RemoteFolder)? = nil) throws -> (any RemoteFolder)? {
        try Self.subfolder(parent ?? repository, name, remote)
    }

    /// Opens a folder of the repository, and creates it durably.
    func makeFolder(_ name: String, in parent: (any RemoteFolder)? = nil) throws -> any RemoteFolder {
        try durable.make(name, in: parent ?? repository, remote)
    }

    private func checkFormat() throws {
        let limit = DirectoryLayout.formatBytes
        guard let content = try repository.read(DirectoryLayout.format, limitBytes: limit), !content.isEmpty else {
            return
        }
        let text = String(decoding: content, as: UTF8.self).split(separator: "\n").first.map(String.init) ?? ""
        // A prefix is still on its way, as in a folder that is synced.
        guard !DirectoryLayout.version.hasPrefix(text) || text.isEmpty else { return }
        throw RemoteError.unknownVersion(remote: remote, version: text.filter { $0 >= " " && $0 <= "~" })
    }

    fileprivate static func subfolder(
        _ parent: any RemoteFolder, _ name: String, _ remote: String
    ) throws -> (any RemoteFolder)? {
        do throws(SystemError) {
            return try parent.folder(name)
        } catch  where error.isNotFolder {
            throw RemoteError.foreignEntry(remote: remote, path: parent.path + "/" + name)
        }
    }
}

/// The folders whose names were synced by this process. A folder that somebody else created may not be durable, whether it
/// is empty or not.
final class DurableFolders: Sendable {
    private let known = Mutex<Set<FileIdentity>>([])

    /// Opens a folder, creates it where it is missing, and makes its name durable.
    func make(_ name: String, in parent: any RemoteFolder, _ remote: String) throws -> any RemoteFolder {
        if let found = try DirectoryFolders.subfolder(parent, name, remote) {
            let identity = try found.identity()
            if known.withLock({ $0.contains(identity) }) { return found }
        }
        try parent.makeFolder(name)
        guard let made = try DirectoryFolders.subfolder(parent, name, remote) else {
            throw SystemError.notFound("openat", parent.path + "/" + name)
        }
        try parent.synchronize()
        let identity = try made.identity()
        known.withLock { _ = $0.insert(identity) }
        return made
    }
}
