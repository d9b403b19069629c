import Foundation
import StorePlatform

@testable import ChangesetSync

/// A folder for one test, and remotes in it.
final class RemoteScratch: Sendable {
    let path: String
    let disk: FaultyDisk
    let repository = Samples.repositoryID()

    init() throws {
        let base = FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
        path = base.appending(path: "remote-\(UUID().uuidString)").path
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        disk = FaultyDisk(path)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    /// The folder of the repository.
    var own: String { "\(path)/\(repository)" }

    func file(of id: ObjectID) -> String { "\(own)/objects/\(id.description.prefix(2))/\(id)" }

    func entry(_ author: AuthorPseudonym, _ sequence: UInt64) -> String { "\(own)/log/\(author)/\(sequence)" }

    /// A remote as programs have it.
    func remote(sharedWithOthers: Bool = false) -> DirectoryRemote {
        DirectoryRemote(path: path, repository: repository, sharedWithOthers: sharedWithOthers)
    }

    /// A remote whose calls a test counts and lets fail: one process.
    func faulty() -> DirectoryRemote {
        DirectoryRemote(path: path, repository: repository) { [disk] in disk.root }
    }

    func object(
        _ number: Int, author: AuthorPseudonym? = nil, sequence: UInt64? = nil, bytes: [UInt8]? = nil
    ) -> RemoteObject {
        let position = sequence.map { LogPosition(author: author ?? Samples.author(), sequence: $0) }
        return RemoteObject(
            repository: repository, id: Samples.id(number), position: position,
            bytes: bytes ?? Samples.bytes(40 + number % 7, seed: UInt64(number)))
    }

    /// Objects with the positions 1 to `count`.
    func objects(_ count: Int, author: AuthorPseudonym? = nil, from first: Int = 1) -> [RemoteObject] {
        (0..<count).map { object(first + $0, author: author, sequence: UInt64($0 + 1)) }
    }

    /// Writes a file as another program does, without a sync.
    func write(to path: String, contents: Data) throws {
        let file = try FileDescriptor(opening: path, .writeOnly, creating: .ifMissing(permissions: 0o600))
        // Only where needed: ext4 writes a file to disk at once that was truncated.
        if try file.status().byteCount > 0 { try file.truncate(toByteCount: 0) }
        try file.write(Array(contents))
    }

    func names(_ folder: String) -> [String] {
        ((try? FileManager.default.contentsOfDirectory(atPath: "\(own)/\(folder)")) ?? []).sorted()
    }

    /// Everything that the logs have, page by page.
    func listAll(_ remote: some SyncRemote, limit: Int = 100) async throws -> (entries: [RemoteEntry], pages: Int) {
        var (entries, pages, cursor) = ([RemoteEntry](), 0, RemoteCursor())
        while true {
            let page = try await remote.list(after: cursor, limit: limit)
            entries += page.entries
            pages += 1
            cursor = page.next
            if !page.hasMore { return (entries, pages) }
        }
    }
}
