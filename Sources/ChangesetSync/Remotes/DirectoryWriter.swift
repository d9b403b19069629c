import StorePlatform

/// Writes objects and log entries into the folder of a repository.
struct DirectoryWriter {
    private let folders: DirectoryFolders
    private let temporary: any RemoteFolder
    private let objects: any RemoteFolder
    private let log: any RemoteFolder

    init(_ folders: DirectoryFolders) throws {
        self.folders = folders
        temporary = try folders.makeFolder(DirectoryLayout.temporary)
        let content = Array((DirectoryLayout.version + "\n").utf8)
        // A file of another version was refused when the folder was opened.
        let present = try folders.repository.read(DirectoryLayout.format, limitBytes: DirectoryLayout.formatBytes)
        if present != content {
            _ = try Self.place(content, DirectoryLayout.format, in: folders.repository, by: temporary, folders.remote)
            try folders.repository.synchronize()
        }
        objects = try folders.makeFolder(DirectoryLayout.objects)
        log = try folders.makeFolder(DirectoryLayout.log)
    }

    /// - Parameter check: Throws when the call shall stop; asked before each object.
    func put(_ wanted: [RemoteObject], while check: () throws -> Void) throws -> [PutResult] {
        var results: [PutResult] = []
        for start in stride(from: 0, to: wanted.count, by: Limits.remoteObjectsAtOnce) {
            let group = wanted[start..<min(start + Limits.remoteObjectsAtOnce, wanted.count)]
            results += try putTogether(group, while: check)
            if case .collision = results.last { break }
        }
        return results
    }

    /// Puts some objects, and when all of them are durable, their log entries: an entry never names an object that a power
    /// failure could remove.
    private func putTogether(_ group: ArraySlice<RemoteObject>, while check: () throws -> Void) throws -> [PutResult] {
        var results: [PutResult] = []
        var shards: [String: any RemoteFolder] = [:]
        for object in group {
            try check()
            let name = DirectoryLayout.shard(of: object.id)
            let shard = try shards[name] ?? folders.makeFolder(name, in: objects)
            shards[name] = shard
            switch try Self.place(object.bytes, object.id.description, in: shard, by: temporary, folders.remote) {
            case .stored: results.append(.stored)
            case .alreadyPresent: results.append(.alreadyPresent)
            case .occupied: results.append(.collision(.object))
            }
            if case .collision = results.last { break }
        }
        for (_, shard) in shards.sorted(by: { $0.key < $1.key }) { try shard.synchronize() }
        return try enter(group, results)
    }

    /// Enters objects that are durable in the logs.
    private func enter(_ group: ArraySlice<RemoteObject>, _ stored: [PutResult]) throws -> [PutResult] {
        var authors: [AuthorPseudonym: any RemoteFolder] = [:]
        var results: [PutResult] = []
        entries: for (object, result) in zip(group, stored) {
            results.append(result)
            if case .collision = result { break }
            guard let position = object.position else { continue }
            let folder = try authors[position.author] ?? folders.makeFolder(position.author.description, in: log)
            authors[position.author] = folder
            let entry = DirectoryLayout.entry(object.id)
            switch try Self.place(entry, String(position.sequence), in: folder, by: temporary, folders.remote) {
            case .stored, .alreadyPresent: break
            case .occupied:
                results[results.count - 1] = .collision(.position)
                break entries
            }
        }
        for (_, folder) in authors.sorted(by: { $0.key < $1.key }) { try folder.synchronize() }
        return results
    }

    // MARK: One file

    private enum Placement {
        case stored
        case alreadyPresent
        /// Something else has the name.
        case occupied
    }

    /// Makes `bytes` the content of a name that nobody has yet. The content is durable then, the name is not.
    private static func place(
        _ bytes: [UInt8], _ name: String, in folder: any RemoteFolder, by temporary: any RemoteFolder, _ remote: String
    ) throws -> Placement {
        if let present = try compare(bytes, name, in: folder), present != .incomplete {
            return try present.settle(name, folder)
        }
        let upload = try DirectoryLayout.newTemporaryName()
        try temporary.createFile(upload, bytes)
        do {
            if try move(upload, from: temporary, to: folder, name, remote) { return .stored }
            guard let present = try compare(bytes, name, in: folder) else {
                // Taken a moment ago, and gone: the folder is being emptied.
                throw SystemError.stale("linkat", folder.path + "/" + name)
            }
            guard present == .incomplete else {
                try temporary.remove(upload)
                return try present.settle(name, folder)
            }
            // A copy by another program that has not ended, or was interrupted: these bytes begin with all that it has.
            try temporary.rename(upload, to: folder, name)
            return .stored
        } catch {
            try? temporary.remove(upload)
            throw error
        }
    }

    /// Gives a durable file its name, unless that is taken.
    ///
    /// - Returns: False when it is taken; the file keeps its temporary name then.
    private static func move(
        _ upload: String, from temporary: any RemoteFolder, to folder: any RemoteFolder, _ name: String,
        _ remote: String
    ) throws -> Bool {
        do throws(SystemError) {
            try temporary.link(upload, to: folder, name)
        } catch  where error.isAlreadyThere {
            return false
        } catch  where error.isUnsupported {
            return try rename(upload, from: temporary, to: folder, name, remote)
        }
        try temporary.remove(upload)
        return true
    }

    /// The same on a filesystem without hard links, by a renaming that the system refuses where the name is taken. An
    /// ordinary one would replace what another writer has put there a moment ago.
    private static func rename(
        _ upload: String, from temporary: any RemoteFolder, to folder: any RemoteFolder, _ name: String,
        _ remote: String
    ) throws -> Bool {
        do throws(SystemError) {
            try temporary.renameExclusively(upload, to: folder, name)
            return true
        } catch  where error.isAlreadyThere {
            return false
        } catch  where error.isUnsupported {
            throw RemoteError.unsupportedFilesystem(remote: remote, error)
        }
    }

    private enum Present {
        case same
        case incomplete
        case different

        /// Another program may have written the file without syncing it.
        func settle(_ name: String, _ folder: any RemoteFolder) throws -> Placement {
            guard self == .same else { return .occupied }
            try folder.synchronize(file: name)
            return .alreadyPresent
        }
    }

    /// Compares what a name has with what it shall have; nil when it has nothing.
    private static func compare(_ bytes: [UInt8], _ name: String, in folder: any RemoteFolder) throws -> Present? {
        var found = try folder.read(name, limitBytes: bytes.count + 1)
        if found == nil {
            guard let kind = try folder.status(of: name)?.kind else { return nil }
            guard kind == .regular else { return .different }
            // Another writer has put it there since it was read.
            found = try folder.read(name, limitBytes: bytes.count + 1)
        }
        guard let present = found else { return nil }
        if present == bytes { return .same }
        return present.count < bytes.count && bytes.starts(with: present) ? .incomplete : .different
    }

    // MARK: Leftovers

    /// Removes temporary files that killed writers have left a day ago. Failures are ignored.
    ///
    /// Their age is counted by the clock of the filesystem, which a file that is made now shows: it may be a server's.
    func removeAbandonedFiles() {
        guard let names = try? temporary.names(limit: Limits.remoteTemporaryFiles).filter(DirectoryLayout.isTemporary),
            !names.isEmpty, let mark = try? DirectoryLayout.newTemporaryName(),
            (try? temporary.createFile(mark, [])) != nil
        else { return }
        defer { try? temporary.remove(mark) }
        guard let now = try? temporary.status(of: mark)?.modified else { return }
        for name in names {
            guard let status = try? temporary.status(of: name), status.kind == .regular,
                now - status.modified > Limits.abandonedUploadAge
            else { continue }
            try? temporary.remove(name)
        }
    }
}
