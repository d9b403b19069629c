#if compiler(<6.2)
    /// The standard library's protocol of this name comes with Swift 6.2; before, every metatype is `Sendable`.
    public typealias SendableMetatype = Any
#endif
