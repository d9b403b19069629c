import CipherStore
import KeyCustody
import StorePlatform

// Commits that SQLite does not read, in the WAL and in the copies of a damaged one.

extension StoreStatus.Report {
    /// - Parameter choice: The sidecar, if a key has authenticated it. The key shows which copies it reads.
    func walFindings(_ choice: AuthenticatedSidecar?) -> [Finding] {
        if let walLoss, backup == nil, walLoss.needsAttention {
            let kept = keptWALs.last.map { ". A copy of the WAL may be \"\(Files.name(of: $0))\"" } ?? ""
            return [Finding(.problem, "commitsLost", walLoss.note + kept, remedy: walLoss.remedy(for: path))]
        }
        return keptWALs.map { copy in
            let isReadable = choice.map { DamagedWAL.mayBeReadable(copy, $0.pageKey) } ?? true
            return isReadable ? readable(copy) : formerKey(copy)
        }
    }

    private func readable(_ copy: String) -> Finding {
        Finding(
            .problem, "walKept",
            "\"\(Files.name(of: copy))\" is a copy of a damaged WAL: commits may be in it that the store does not have",
            remedy: "copy what can be read into another store before the key is rotated: `cipherctl salvage "
                + "\(ShellWord.path(path)) NEW --wal \(ShellWord.path(copy))`. When you have all "
                + "that you need, remove the copy")
    }

    private func formerKey(_ copy: String) -> Finding {
        Finding(
            .problem, "walKept",
            "\"\(Files.name(of: copy))\" is a copy of a damaged WAL that the present key does not read: it is from "
                + "before a rotation, or of another store",
            remedy: "copy what can be read with a backup from before the rotation: `cipherctl salvage BACKUP NEW --wal "
                + "\(ShellWord.path(copy))`. When you have all that you need, or have no such backup, remove the copy")
    }
}
