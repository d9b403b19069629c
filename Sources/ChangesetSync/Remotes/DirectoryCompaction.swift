import StorePlatform

/// The acknowledgements of the replicas in the folder of a repository, and the removal of what a checkpoint has replaced.
struct DirectoryCompaction {
    let folders: DirectoryFolders

    // MARK: Acknowledgements

    /// Replaces the file of an author. Only that replica writes it, so no two writers meet.
    func put(_ acknowledgement: RemoteAcknowledgement) throws {
        // Makes what else a repository has in its folder.
        _ = try DirectoryWriter(folders)
        let temporary = try folders.makeFolder(DirectoryLayout.temporary)
        let folder = try folders.makeFolder(DirectoryLayout.acknowledgements)
        let upload = try DirectoryLayout.newTemporaryName()
        try temporary.createFile(upload, acknowledgement.bytes)
        do {
            try temporary.rename(upload, to: folder, acknowledgement.author.description)
        } catch {
            try? temporary.remove(upload)
            throw error
        }
        try folder.synchronize()
    }

    /// - Parameter limitBytes: What they may have together.
    func all(limitBytes: Int = Limits.acknowledgementsBytes) throws -> [RemoteAcknowledgement] {
        guard let folder = try folders.folder(DirectoryLayout.acknowledgements) else { return [] }
        let authors = try folder.names(limit: Limits.remoteAuthors).compactMap { AuthorPseudonym($0) }.sorted()
        var (found, left) = ([RemoteAcknowledgement](), limitBytes)
        for author in authors {
            let name = author.description
            guard let bytes = try folder.read(name, limitBytes: Limits.acknowledgementBytes + 1) else { continue }
            left -= bytes.count
            guard left >= 0 else { throw SystemError.tooLarge(call: "read", path: "ack/\(name)") }
            found.append(RemoteAcknowledgement(author: author, bytes: bytes))
        }
        return found
    }

    // MARK: Removal

    /// Objects first: as long as an entry is there, a call that is repeated finds its object.
    func delete(
        _ loose: [ObjectID], through cursor: RemoteCursor, except needed: Set<ObjectID>, while check: () throws -> Void
    ) throws {
        let objects = try folders.folder(DirectoryLayout.objects)
        var shards: [String: any RemoteFolder] = [:]
        func remove(_ id: ObjectID) throws {
            let name = DirectoryLayout.shard(of: id)
            if shards[name] == nil { shards[name] = try objects.flatMap { try folders.folder(name, in: $0) } }
            if let shard = shards[name] { try Self.remove(id.description, from: shard) }
        }
        for id in loose where !needed.contains(id) {
            try check()
            try remove(id)
        }
        guard let log = try folders.folder(DirectoryLayout.log) else { return }
        for (author, last) in cursor.sequences.sorted(by: { $0.key < $1.key }) {
            guard let folder = try folders.folder(author.description, in: log) else { continue }
            var first = last
            while first > 0, let entry = try folder.read(String(first), limitBytes: DirectoryLayout.entryBytes + 1) {
                try check()
                if let id = DirectoryLayout.id(ofEntry: entry), !needed.contains(id) { try remove(id) }
                first -= 1
            }
            // Upwards, so that those that are left lead to the last one.
            var sequence = first + 1
            while sequence < last {
                try check()
                try Self.remove(String(sequence), from: folder)
                sequence += 1
            }
        }
    }

    private static func remove(_ name: String, from folder: any RemoteFolder) throws {
        do throws(SystemError) {
            try folder.remove(name)
        } catch  where error.isNotFound {
            // Another replica removes the same.
        }
    }
}
