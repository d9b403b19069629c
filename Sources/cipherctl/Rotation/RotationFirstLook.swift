import CipherStore
import KeyCustody
import KeyRotation
import StorePlatform

/// What is told of a store instead of opening it.
enum RotationFirstLook {
    /// - Returns: nil when the store is to be opened.
    static func outcome(instead rotation: StoreRotation) -> RotationOutcome? {
        switch rotation.work {
        case .dryRun: return pending(rotation.path)
        case .rotate where rotation.request.youngestAge != nil:
            do {
                return try ageless(rotation.path, rotation.key, rotation.console)
            } catch {
                return RotationOutcome(path: rotation.path, .failed(error))
            }
        case .rotate, .resume, .abort: return nil
        }
    }

    /// A dry run changes nothing, and an opening would complete or undo what is pending, or remove what was left.
    private static func pending(_ path: String) -> RotationOutcome? {
        // What cannot be looked at, opening says best.
        guard let status = try? KeyRotation.status(of: path) else { return nil }
        if status.state != .none { return RotationOutcome(path: path, .pending(status)) }
        let copy = StorePaths(path).rotationCopy
        guard !status.isRunning, case .copy = try? RotationLeftover(at: copy) else { return nil }
        return RotationOutcome(path: path, .leftover(copy))
    }

    /// A key whose time is still to come has no age that could be compared.
    private static func ageless(_ path: String, _ key: UnlockedKey, _ console: Console) throws -> RotationOutcome? {
        let paths = StorePaths(path)
        let claimed = SidecarFiles(databasePath: paths.database).read().claimed
        // Without a derivation where nobody claims such a time.
        guard claimed.contains(where: { KeyHealth(paths, $0).isKeyToCome }) else { return nil }
        let health = KeyHealth(paths, try SidecarUnlocking.choose(path, key, console).sidecar)
        guard health.isKeyToCome, let created = health.keyCreated else { return nil }
        return RotationOutcome(path: path, .notJudged(created: created))
    }
}
