import CipherStore
import KeyCustody
import PageFormat
import StoreCrypto
import StorePlatform

/// Whether a sidecar is the newest that its store has had. Nothing in the sidecar itself shows that; the store remembers it
/// among its pages.
///
/// The row is read below SQLite: nothing is locked, waited for or written, and of a damaged database no other page matters.
/// It is raised behind both copies of the sidecar, so whatever moment of it is seen, a sidecar that is read later and is older
/// was put back.
enum SidecarAge {
    /// The store remembers no newer one.
    case newest
    /// `sidecarRolledBack`.
    case rolledBack(StoreError)
    /// The store could not be asked, for this reason.
    case unknown(String)

    /// - Parameter choice: The sidecar as a key has proved it.
    init(_ path: String, _ choice: SidecarChoice) {
        // What opens a direct store is no secret of its sidecar.
        guard choice.sidecar.slotted != nil else {
            self = .newest
            return
        }
        do {
            guard let remembered = try Self.remembered(path, choice),
                choice.sidecar.isRolledBack(storeRemembersGeneration: remembered)
            else {
                self = .newest
                return
            }
            // Another process may have changed the keys since the sidecar was read.
            let files = SidecarFiles(databasePath: StorePaths(path).database)
            let newest = try files.choose(files.read(), unlock: { _ in choice.keys })?.sidecar ?? choice.sidecar
            do throws(StoreError) {
                try newest.requireCurrent(storeRemembersGeneration: remembered, of: path)
                self = .newest
            } catch {
                self = .rolledBack(error)
            }
        } catch {
            self = .unknown(ErrorReport(error).message)
        }
    }

    /// For commands that act on what the sidecar says.
    ///
    /// - Throws: `StoreError` `sidecarRolledBack`, as opening the store does.
    func requireNewest(_ console: Console) throws {
        switch self {
        case .newest: break
        case .rolledBack(let error): throw error
        case .unknown: finding.map { console.note($0.what) }
        }
    }

    /// What is to be told; nil when all is well.
    var finding: Finding? {
        switch self {
        case .newest: nil
        case .rolledBack(let error):
            Finding(.problem, error.code.name, "\(error.what) \(error.why)", remedy: error.remedy)
        case .unknown(let reason):
            Finding(
                .note, "sidecarNotCompared",
                "whether the sidecar is the newest one was not found out, because the store cannot be asked: \(reason)")
        }
    }

    /// For programs: null when it is not known.
    var json: JSON {
        switch self {
        case .newest: .bool(false)
        case .rolledBack: .bool(true)
        case .unknown: .null
        }
    }

    // MARK: Reading the row

    /// How long a page that does not authenticate is read again: a checkpoint may be writing it, or the log begun anew.
    private static let recheck = Duration.milliseconds(100)

    private static func remembered(_ path: String, _ choice: SidecarChoice) throws -> UInt64? {
        let deadline = ContinuousClock.now + recheck
        while true {
            do {
                return try CustodyTable.generation(of: choice.sidecar.storeID, in: StorePages(path, choice).tables)
            } catch  where ContinuousClock.now < deadline {
                Pause.sleep(for: .milliseconds(5))
            }
        }
    }
}
