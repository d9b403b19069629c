import StorePlatform

/// Reads logs and objects from the folder of a repository.
struct DirectoryReader {
    let remote: String
    /// nil while the repository has no folder.
    let folders: DirectoryFolders?

    // MARK: Logs

    func list(after cursor: RemoteCursor, limit: Int, while check: () throws -> Void) throws -> RemotePage {
        let log = try folders?.folder(DirectoryLayout.log)
        try checkCursor(cursor, log)
        guard let folders, let log else {
            return RemotePage(entries: [], next: cursor, hasMore: false, stalled: [])
        }
        let objects = try folders.folder(DirectoryLayout.objects)
        let authors = try log.names(limit: Limits.remoteAuthors).compactMap { AuthorPseudonym($0) }
            .filter { try log.status(of: $0.description)?.kind == .directory }.sorted()
        var page = Page(objects: objects, cursor: cursor)
        for (index, author) in authors.enumerated() {
            guard let folder = try folders.folder(author.description, in: log) else { continue }
            // A share for each of the rest, so that an author who writes without end cannot keep the others waiting.
            let left = limit - page.entries.count
            let share = (left + authors.count - index - 1) / (authors.count - index)
            try page.read(folder, author, limit: share, folders, while: check)
        }
        return RemotePage(
            entries: page.entries, next: page.cursor, hasMore: page.hasMore, stalled: page.stalled)
    }

    /// Verifies that the last entry that was read of each author is still there.
    private func checkCursor(_ cursor: RemoteCursor, _ log: (any RemoteFolder)?) throws {
        for (author, sequence) in cursor.sequences.sorted(by: { $0.key < $1.key }) {
            try require(LogPosition(author: author, sequence: sequence), in: log)
        }
    }

    /// Refuses what would leave a gap in a log: readers would wait before it for ever.
    func checkPredecessors(of objects: [RemoteObject]) throws {
        let log = try folders?.folder(DirectoryLayout.log)
        var seen: Set<AuthorPseudonym> = []
        for position in objects.compactMap(\.position) where seen.insert(position.author).inserted {
            guard position.sequence > 1 else { continue }
            let missing = LogPosition(author: position.author, sequence: position.sequence - 1)
            try require(missing, in: log)
        }
    }

    private func require(_ position: LogPosition, in log: (any RemoteFolder)?) throws {
        let folder = try log.flatMap { try folders?.folder(position.author.description, in: $0) }
        guard try folder?.status(of: String(position.sequence))?.kind == .regular else {
            throw RemoteError.remoteRewound(remote: remote, missing: position)
        }
    }

    /// A page that is being filled.
    private struct Page {
        let objects: (any RemoteFolder)?
        var cursor: RemoteCursor
        var entries: [RemoteEntry] = []
        var stalled: [RemoteStall] = []
        var hasMore = false
        private var shards: [String: any RemoteFolder] = [:]

        init(objects: (any RemoteFolder)?, cursor: RemoteCursor) {
            self.objects = objects
            self.cursor = cursor
        }

        /// Reads the log of one author up to a limit, its end, or the first entry that cannot be read yet.
        mutating func read(
            _ folder: any RemoteFolder, _ author: AuthorPseudonym, limit: Int, _ folders: DirectoryFolders,
            while check: () throws -> Void
        ) throws {
            var read = 0
            while cursor.sequence(of: author) < .max {
                let position = LogPosition(author: author, sequence: cursor.sequence(of: author) + 1)
                let name = String(position.sequence)
                guard read < limit else {
                    hasMore = try hasMore || folder.status(of: name) != nil
                    return
                }
                try check()
                guard let bytes = try folder.read(name, limitBytes: DirectoryLayout.entryBytes + 1) else {
                    if let reason = try Self.reason(folder, at: position) { stall(position, reason) }
                    return
                }
                guard let id = DirectoryLayout.id(ofEntry: bytes) else { return stall(position, .entryDamaged) }
                switch try kind(of: id, folders) {
                case .regular: break
                case nil: return stall(position, .objectMissing(id))
                case .directory, .other: return stall(position, .entryDamaged)
                }
                entries.append(RemoteEntry(id: id, position: position))
                cursor.advance(after: position)
                read += 1
            }
        }

        private mutating func stall(_ position: LogPosition, _ reason: RemoteStall.Reason) {
            stalled.append(RemoteStall(position: position, reason: reason))
        }

        /// What stands in the place of an object; nil for nothing.
        private mutating func kind(of id: ObjectID, _ folders: DirectoryFolders) throws -> FileKind? {
            guard let objects else { return nil }
            let name = DirectoryLayout.shard(of: id)
            if shards[name] == nil { shards[name] = try folders.folder(name, in: objects) }
            return try shards[name]?.status(of: id.description)?.kind
        }

        /// Why an entry was not read: there are entries after it, or there is something else in its place; nil at the end
        /// of the log. The others are looked for at growing distances, because listing a folder of a hundred thousand names
        /// at each call takes too long.
        private static func reason(
            _ folder: any RemoteFolder, at position: LogPosition
        ) throws -> RemoteStall.Reason? {
            var isFollowed = false
            for exponent in 0..<Limits.remoteGapProbes where !isFollowed {
                let (sequence, isTooHigh) = position.sequence.addingReportingOverflow(1 << UInt64(exponent))
                isFollowed = try !isTooHigh && folder.status(of: String(sequence)) != nil
            }
            // Last: its author may have written it, and those after it, since it was found missing.
            switch try folder.status(of: String(position.sequence))?.kind {
            case .none: return isFollowed ? .entryMissing : nil
            case .regular: return nil
            case .directory, .other: return .entryDamaged
            }
        }
    }

    // MARK: Objects

    func get(_ ids: [ObjectID], of repository: RepositoryID, while check: () throws -> Void) throws -> [RemoteObject] {
        guard let folders, let objects = try folders.folder(DirectoryLayout.objects) else { return [] }
        var shards: [String: any RemoteFolder] = [:]
        return try ids.compactMap { id in
            try check()
            let name = DirectoryLayout.shard(of: id)
            if shards[name] == nil { shards[name] = try folders.folder(name, in: objects) }
            guard let bytes = try shards[name]?.read(id.description, limitBytes: Limits.envelopeBytes + 1) else {
                return nil
            }
            return RemoteObject(repository: repository, id: id, position: nil, bytes: bytes)
        }
    }
}
