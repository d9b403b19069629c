import KeyCustody
import StoreCrypto
import StorePlatform

/// A key plugin as a device. Its tokens begin with a byte of flags; the rest is the plugin's own blob.
struct PluginDevice: TokenDevice {
    /// The flag of a blob for whose holder the plugin wraps without asking anything.
    private static let aloneFlag: UInt8 = 1

    let plugin: String
    let options: [String: String]
    let dialogue: @Sendable () throws -> PluginDialogue

    var kind: Keyslot.Kind { .plugin }
    var name: String { "plugin \"\(plugin)\"" }

    func mayOpen(_ token: SlotToken) -> Bool { token.name.text == plugin }

    func wrapsAlone(_ former: SlotToken) -> Bool { former.blob.first == Self.aloneFlag }

    func wrap(_ secret: SecretBytes, for store: StoreID, replacing former: SlotToken?) throws -> WrappedSecret {
        let dialogue = try dialogue()
        var request = request("wrap", store)
        if let former { request.add("former", former.blob.dropFirst()) }
        request.add("secret", secret)
        guard case .blob(let blob, let isTestable, let wrapsAlone) = try dialogue.result(of: request) else {
            throw dialogue.invalid("It answered something else than a blob.")
        }
        guard
            let token = SlotToken(
                name: try SlotLabel(plugin), blob: [wrapsAlone ? Self.aloneFlag : 0] + blob)
        else {
            throw dialogue.invalid("Its blob is longer than \(CustodyLimits.tokenBytes - 1) bytes.")
        }
        return WrappedSecret(token, isTestable: isTestable)
    }

    func unwrap(_ token: SlotToken, of slot: TokenSlot) throws -> SecretBytes? {
        let dialogue = try dialogue()
        guard let flags = token.blob.first, flags <= Self.aloneFlag, token.blob.count > 1 else {
            throw dialogue.invalid("The token of slot \(slot.number) is not one of a plugin.")
        }
        var request = request("unwrap", slot.store)
        request.add("blob", token.blob.dropFirst())
        switch try dialogue.result(of: request) {
        case .secret(let secret): return secret
        case .foreign: return nil
        default: throw dialogue.invalid("It answered something else than a secret.")
        }
    }

    /// A request with what every request has.
    private func request(_ verb: String, _ store: StoreID) -> PluginRequest {
        var request = PluginRequest("cipherstore-key \(PluginLimits.version) \(verb) store=\(store)")
        for (key, value) in options.sorted(by: { $0.key < $1.key }) {
            request.add("option.\(key)", value.utf8)
        }
        return request
    }

    /// The plugin's own words about a blob, for people.
    func describe(_ token: SlotToken) throws -> String {
        let dialogue = try dialogue()
        var request = PluginRequest("cipherstore-key \(PluginLimits.version) describe")
        request.add("blob", token.blob.dropFirst())
        guard case .text(let text) = try dialogue.result(of: request) else {
            throw dialogue.invalid("It answered something else than a text.")
        }
        return text
    }
}
