import CipherStore
import KeyCustody

/// The keys beside the one that opens the stores, each asked for once.
struct RotationSecrets {
    /// The new key of direct stores.
    let new: UnlockedKey?
    /// Keys whose slots are kept when the master key is renewed.
    let also: [UnlockedKey]
    /// The command that gave the new key; asked again before a switch.
    let proof: KeySource?

    init(_ request: RotationRequest, _ console: Console) throws {
        let arguments = request.arguments
        also = try KeyOptions.alsoSources(arguments).map { try UnlockedKey($0, console) }
        guard KeyOptions.isNewGiven(arguments) else {
            (new, proof) = (nil, nil)
            return
        }
        let source = try KeyOptions.newSource(arguments)
        new = try UnlockedKey(new: source, console)
        // What else there is gives its key once, or cannot change.
        proof = arguments.value("--new-key-command") == nil ? nil : source
    }
}
