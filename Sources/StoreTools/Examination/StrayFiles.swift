import CipherStore
import KeyCustody
import PageFormat
import RotationCore
import StorePlatform
import StoreSharing

/// Files next to a store that should not exist for long, or not at all.
struct StrayFiles {
    let paths: StorePaths
    /// Whether a rotation is pending or at work.
    var isRotating = false
    /// The folder with the files of the store that an interrupted restoration was replacing: nothing may be removed then.
    var interruptedRestoration: String?

    func findings() -> [Finding] {
        let name = Files.name(of: paths.database)
        let names = ((try? Files.names(inDirectory: Files.directory(of: paths.database))) ?? []).sorted()
        let copy = isRotating || interruptedRestoration != nil ? [] : lastingRotationCopy()
        let own = names.filter { $0.hasPrefix(name) }
        let planted = PlantedEntries(paths: paths, names: own).findings()
        return unfinishedWork(besides: planted) + copy
            + own.compactMap { planted[$0] ?? finding(String($0.dropFirst(name.count)), name: $0) }
    }

    private func journal(_ severity: Finding.Severity) -> Finding {
        let first = try? RawFile(paths.database).bytes(at: 0, count: DatabaseHeader.headerBytes)
        if let first, DatabaseHeader(first)?.journalMode == .rollback {
            return Finding(
                severity, "journal",
                "there is a rollback journal: a program in rollback mode has the store open, or died in it",
                remedy: "open the store once for writing (cipherctl sql --write); never delete the journal")
        }
        return Finding(
            severity, "journal",
            "there is a rollback journal, which a store in WAL mode does not have: it is not played back",
            remedy: "find out who made it, then move it away")
    }

    private func finding(_ ending: String, name: String) -> Finding? {
        if ending == "-journal" {
            // A path that is no file is found with the permissions, and a journal of a backup as no part of it.
            guard BackupBundle(holding: paths.database) == nil else { return nil }
            guard (try? Files.kind(paths.journal)) == .regular else { return nil }
            let bytes = (try? Files.byteCount(paths.journal)) ?? nil
            return journal(bytes ?? 0 > 0 ? .risk : .note)
        }
        if ending.hasPrefix("-sidecar"), ending.hasSuffix(".damaged") {
            return Finding(
                .risk, "damagedCopy", "\"\(name)\" is a copy of the sidecar that was damaged or forged and set aside",
                remedy: "find out what happened to it, then remove it")
        }
        if ending.hasPrefix("-"), ending.contains(".tmp-") {
            // A process that writes it at this moment replaces the file with it.
            let path = Files.directory(of: paths.database) + "/" + name
            guard Polling.holds({ Files.exists(path) }) else { return nil }
            return Finding(
                .risk, "temporaryFile", "\"\(name)\" was left by a process that died while it wrote",
                remedy: "nothing: a later change of the sidecar removes it; or remove it yourself")
        }
        if ending == "-destroying" { return destroyedDatabase(name) }
        // Reported as a whole: the database in that folder is the one at the path, and the other files may exist only
        // there.
        if let interruptedRestoration, ending == "-restoring" || name == Files.name(of: interruptedRestoration) {
            return nil
        }
        if ending == "-restoring" {
            // Beside a store only a restoration with --replace runs, and it replaces the store.
            let removal = "remove it with `rm \(ShellWord.path(paths.database + ending))`: nothing refers to it"
            return Finding(
                .risk, "restorationLeftover", "\"\(name)\" was left by a restoration that is running or was killed",
                remedy: Files.exists(paths.database)
                    ? "if none is running, \(removal)"
                    : "run `cipherctl restore DIR \(ShellWord.path(paths.database))` again; or, if none is running, \(removal)"
            )
        }
        if ending.hasPrefix("-replaced-") {
            return Finding(
                .note, "formerFiles", "\"\(name)\" keeps the files of the store that a restoration replaced",
                remedy: "remove it when you no longer need it: it opens with the keys of its time")
        }
        if ending.hasPrefix(".sqlcipher"), ["1", "2", "3"].contains(ending.dropFirst(10)) {
            return Finding(
                .note, "original", "\"\(name)\" is the database from which this store was adopted",
                remedy: "remove it when you no longer need it: the same passphrase opens it")
        }
        return nil
    }

    private func destroyedDatabase(_ name: String) -> Finding {
        let isReplaced = ((try? Files.byteCount(paths.database)) ?? nil) ?? 0 > 0
        let what = "\"\(name)\" is the database of a store that was being destroyed"
        return isReplaced
            ? Finding(
                .risk, "destructionInterrupted", what + ", and another one has taken its place since",
                remedy: "move \"\(name)\" away, that file alone, or remove it: cipherctl destroy refuses until then")
            : Finding(
                .problem, "destructionInterrupted", what,
                remedy: "complete it with cipherctl destroy: no process can open a store here until then")
    }

    /// A file with the name of a rotation's copy, unless a rotation has begun or ended in the meantime.
    private func lastingRotationCopy() -> [Finding] {
        if rotationCopy().isEmpty || StoreStatus.Report.isChangingKeys(paths.database) == true { return [] }
        return rotationCopy()
    }

    /// A file with the name of a rotation's copy.
    private func rotationCopy() -> [Finding] {
        let name = Files.name(of: paths.rotationCopy)
        switch try? RotationLeftover(at: paths.rotationCopy) {
        case .absent: return []
        case .foreign(let why):
            return [
                Finding(
                    .risk, "rotationBlocked", "\"\(name)\" has the name of a rotation's copy, and none can run. \(why)",
                    remedy: "find out what it is, and move it away")
            ]
        case .copy:
            return [
                Finding(
                    .risk, "rotationCopy", "\"\(name)\" was left by a rotation: an opening for writing removes it",
                    remedy: "open the store once for writing: cipherctl sql --write")
            ]
        case nil:
            return [Finding(.risk, "rotationCopy", "\"\(name)\" is there and cannot be examined", remedy: nil)]
        }
    }

    /// Directories of commands that were killed.
    private func unfinishedWork(besides planted: [String: Finding]) -> [Finding] {
        let purposes: [StagingDirectory.Purpose] = [.importing, .adopting, .exporting]
        return purposes.flatMap { purpose in
            ((try? StagingDirectory.abandoned(for: paths.database, purpose)) ?? []).filter {
                planted[Files.name(of: $0)] == nil
            }.map { directory in
                Finding(
                    .risk, "unfinishedWork", "\"\(Files.name(of: directory))\" was left by a command that was killed",
                    remedy: purpose == .exporting
                        ? "remove it: it holds rows that can be read without a key"
                        : "run the command again, or remove it: nothing refers to it")
            }
        }
    }
}
