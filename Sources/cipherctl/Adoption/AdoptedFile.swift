import PageFormat
import StorePlatform
import StoreSharing

/// The file that is to be adopted, open below SQLite from the first look at it to the end.
///
/// Its descriptor is opened before the first connection of this process and closed after the last (FACTS 5).
final class AdoptedFile {
    let path: String
    private let descriptor: FileDescriptor

    private static let pieceBytes = 1 << 20

    /// - Throws: `SystemError`, also when the file may not be written.
    init(_ path: String) throws {
        self.path = path
        descriptor = try FileDescriptor(opening: path, .readWrite)
    }

    var byteCount: Int { get throws { try descriptor.status().byteCount } }

    func beginning(_ count: Int) throws -> [UInt8] { try descriptor.read(at: 0, byteCount: count) }

    /// Keeps every connection of every program out.
    ///
    /// - Throws: `StoreError` `storeInUse` when one is there.
    func lock() throws {
        guard try descriptor.tryLock(SQLiteLockByte.all, .exclusive) else {
            throw Self.inUse(path, "A connection holds a lock on it.")
        }
        let others = ProcessInspector.others(using: path)
        guard others.isEmpty else {
            let names = others.map { "\($0) (\(ProcessInspector.commandName(of: $0) ?? "?"))" }
            throw Self.inUse(path, "These processes have it open: \(names.joined(separator: ", ")).")
        }
        guard try Files.identity(path) == descriptor.status().identity else {
            throw Self.inUse(path, "Another file took its place a moment ago.")
        }
    }

    func unlock() { try? descriptor.unlock(SQLiteLockByte.all) }

    /// Copies the file, but for its first page, into a new one that is durable and for the same users.
    func copy(to newPath: String, firstPage: [UInt8], progress: (_ done: Int, _ total: Int) throws -> Void) throws {
        let total = try byteCount
        let target = try FileDescriptor(
            opening: newPath, .writeOnly, creating: .always(permissions: FileAttributes.privatePermissions))
        try FileAttributes(of: path)?.apply(to: target)
        try target.write(firstPage)
        var done = firstPage.count
        while done < total {
            let piece = try descriptor.read(at: done, byteCount: min(Self.pieceBytes, total - done))
            guard !piece.isEmpty else { throw SystemError.inputOutput("read", path) }
            try target.write(piece)
            done += piece.count
            try progress(done, total)
        }
        try target.synchronize()
    }

    static func inUse(_ path: String, _ why: String) -> StoreError {
        StoreError(
            .storeInUse, what: "\"\(path)\" is in use.", why: why,
            remedy: "End what uses it, then adopt it again; it was left as it is.")
    }
}
