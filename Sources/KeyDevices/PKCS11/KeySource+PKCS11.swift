import KeyCustody
import StorePlatform

extension KeySource {
    /// A key on a PKCS#11 token that wraps the secret of a keyslot.
    ///
    /// It opens stores with a keyslot of the token. A new keyslot uses an AES key of the token, or else a private RSA key,
    /// which also lets a rotation renew the slot without the token. The source keeps the secret, and the PIN once the
    /// token has accepted it: the token is asked once, however often the store is opened by this source.
    ///
    /// - Parameters:
    ///   - uri: The token, and for a new keyslot the key: `pkcs11:serial=0123;object=store` (RFC 7512), or
    ///     the serial number of the token.
    ///   - module: The absolute path of the module; nil uses `module-path` of the URI.
    ///   - pin: Read when the token needs a login; nil if it needs none or has a keypad. A PIN that was not typed is not
    ///     tried when a wrong one would lock the token.
    ///   - onNote: Receives what the user must do, such as entering the PIN at the token.
    /// - Throws: `StoreError` `invalidKey` for a URI that cannot be used.
    public static func pkcs11(
        _ uri: String, module: String? = nil, pin: KeySource? = nil,
        onNote: @escaping @Sendable (String) -> Void = { _ in }
    ) throws -> KeySource {
        let selection = try TokenURI(uri)
        guard let path = module ?? selection.modulePath else {
            throw StoreError(
                .invalidKey, what: "The PKCS#11 token cannot be asked.", why: "No module was named.",
                remedy: "Name the library of the token, such as /usr/lib/softhsm/libsofthsm2.so.")
        }
        let device = PKCS11Device(modulePath: path, uri: selection, login: PKCS11Login(pin, onNote: onNote))
        return .token(device, onAsk: onNote)
    }
}
