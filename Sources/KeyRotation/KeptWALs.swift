import CipherStore
import KeyCustody
import StorePlatform
import StoreSharing

/// Copies of a damaged WAL beside a store that only its present key reads. A rotation leaves them as they are:
/// afterwards salvage reads them with a backup, which has the former sidecar.
struct KeptWALs {
    private let path: String
    private let copies: [String]

    /// - Throws: `SystemError`.
    init(_ paths: StorePaths, _ keys: SidecarKeys, _ sidecar: Sidecar) throws {
        path = paths.database
        guard let dataKey = try keys.dataKey(of: sidecar) else {
            copies = []
            return
        }
        let key = PageKey(dataKey, salt: sidecar.salt, settings: sidecar.settings)
        copies = try DamagedWAL.copies(of: paths).filter { DamagedWAL.mayBeReadable($0, key) }
    }

    /// The copies, and why they matter.
    private var what: String {
        let names = copies.map { "\"\($0)\"" }.joined(separator: ", ")
        let kind = copies.count == 1 ? "is a copy of a damaged WAL" : "are copies of damaged WALs"
        return "\(names) \(kind). Commits may be there that the store does not have, and only the present key reads "
            + "them.\(owners)"
    }

    /// The other users who own copies: a member of the group may have put another file there.
    private var owners: String {
        let found = Set(copies.compactMap { (try? Files.ownStatus(of: $0))??.owner })
        let others = found.subtracting([ProcessInspector.effectiveUser]).sorted().map { "user \($0)" }
        return others.isEmpty ? "" : " It belongs to \(CountText.list(others))."
    }

    /// The command that reads the newest copy.
    private var salvage: String {
        "`cipherctl salvage \(ShellWord.path(path)) NEW --wal \(ShellWord.path(copies.last ?? ""))`"
    }

    /// The finding if the rotation makes a backup, or may make one; nil without a copy.
    var warning: RotationPlan.Finding? {
        if copies.isEmpty { return nil }
        return RotationPlan.Finding(
            what: what,
            remedy: "Copy what can be read before the rotation: \(salvage). Afterwards, give a backup from before the "
                + "rotation in the place of the store. A rotation without a backup is refused.")
    }

    /// The reason against a rotation without a backup; nil without a copy.
    var obstacle: RotationPlan.Finding? {
        if copies.isEmpty { return nil }
        return RotationPlan.Finding(
            what: what,
            remedy: "Copy what can be read: \(salvage). Then remove the copy. Or let the rotation make a backup: "
                + "salvage reads the copy with that backup afterwards.")
    }

    /// - Throws: ``StoreError`` `walDamaged` where there is a copy.
    func require() throws {
        guard let obstacle else { return }
        throw StoreError(
            .walDamaged, what: "\"\(path)\" was not rotated.", why: obstacle.what,
            remedy: obstacle.remedy + " Nothing was changed.")
    }
}
