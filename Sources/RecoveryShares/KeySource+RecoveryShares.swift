import KeyCustody
import StorePlatform

extension KeySource {
    /// The files of some shares of a recovery key, in any order; as many as the threshold, or more.
    ///
    /// Their permissions are checked like those of a key file. They are read when the store is opened, and again after
    /// its key has changed.
    /// - Parameter files: The paths, one share in each. Relative ones are made absolute here.
    public static func recoveryShares(files: [String]) -> KeySource {
        recoveryShares(files: files, onMisfits: { _ in })
    }

    /// - Parameter onMisfits: Gets the numbers of shares that do not fit to the key which the others give; none if it is not clear which are wrong.
    package static func recoveryShares(
        files: [String], onMisfits: @escaping @Sendable ([Int]) -> Void
    ) -> KeySource {
        let paths = files.map { (given: $0, absolute: Files.absolute($0)) }
        return .customRawKey(RecoveryShareSet.sourceName) {
            var set = RecoveryShareSet()
            for path in paths {
                let share = try RecoveryShare(file: path.absolute, named: path.given)
                do throws(RecoveryShareSet.Refusal) {
                    try set.add(share)
                } catch {
                    throw StoreError(error, path.given)
                }
            }
            do {
                let combination = try set.combine()
                if !combination.misfits.isEmpty || combination.areUnclear { onMisfits(combination.misfits) }
                return combination.key
            } catch let refusal as RecoveryShareSet.Refusal {
                throw StoreError(refusal, nil)
            }
        }
    }
}

extension RecoveryShareSet {
    /// The name of their source in errors.
    package static let sourceName = "recovery shares"
}

extension RecoveryShare {
    /// Reads the file of a share.
    ///
    /// - Throws: `StoreError` `invalidKey`; `SystemError`.
    init(file path: String, named name: String) throws {
        let text = try KeyFile.contents(of: path, checkingPermissions: true)
        do throws(ReadingError) {
            self = try text.withBytes { bytes throws(ReadingError) in try RecoveryShare(reading: bytes) }
        } catch {
            throw StoreError(
                .invalidKey, what: "\"\(name)\" is not a share of a recovery key.", why: "\(error)".asSentence,
                remedy: error == .recoveryKey
                    ? "Give it like a passphrase, for example with --key-file." : "Compare it with what was printed.")
        }
    }
}

extension StoreError {
    /// - Parameter file: The file of the share; nil where the error is about all of them.
    fileprivate init(_ refusal: RecoveryShareSet.Refusal, _ file: String?) {
        switch refusal {
        case .missing:
            self.init(
                .keyMissing, what: "The recovery shares give no key.", why: "\(refusal)".asSentence,
                remedy: "Give further shares of the same set.")
        case .wrongShare:
            self.init(
                .invalidKey, what: "The recovery shares give no key.", why: "\(refusal)".asSentence,
                remedy: "Give one share more of the same set, which shows the wrong one; or replace shares in turn.")
        case .otherSet, .repeated:
            self.init(
                .invalidKey, what: "\"\(file ?? "")\" does not belong to the other recovery shares.",
                why: "\(refusal)".asSentence, remedy: "Give different shares of one recovery key.")
        }
    }
}

extension String {
    /// The text with a capital letter at its beginning and a point at its end.
    fileprivate var asSentence: String { prefix(1).uppercased() + dropFirst() + "." }
}
