-- The constraint of exports calls this function as the role that registers one, which needs
-- no further GRANT.
GRANT EXECUTE ON FUNCTION canvasback_tenant_source(text, text) TO PUBLIC;
